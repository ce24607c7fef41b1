// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <utility>

#include <heddle/comm/detail/socket.hpp>

namespace heddle::comm {

/// Where rank 0 of a run listens. Of every address of this machine; of `localhost`, `127.…` and `::1`, of that alone.
class tcp_listener {
 public:
  /// Port 0 takes one that is free.
  ///
  /// **Errors.** communication_error where the port is taken, or may not be: the port, the system's text, a remedy.
  explicit tcp_listener(std::string const& host, std::uint16_t port) {
    bool const local = host == "localhost" || host == "::1" || host.starts_with("127.");
    int code = 0;
    if (local) {
      detail::addresses const all = detail::addresses_of(host, port);
      for (addrinfo const* one = all.get(); one != nullptr && !socket_; one = one->ai_next)
        code = listen(*one->ai_addr, one->ai_addrlen);
    } else {
      sockaddr_in6 six{};
      six.sin6_family = AF_INET6;
      six.sin6_port = htons(port);
      sockaddr_in four{};
      four.sin_family = AF_INET;
      four.sin_port = htons(port);
      code = listen(reinterpret_cast<sockaddr const&>(six), sizeof(six));
      if (!socket_ && code != EADDRINUSE && code != EACCES)  // a machine without IPv6
        code = listen(reinterpret_cast<sockaddr const&>(four), sizeof(four));
    }
    if (!socket_)
      throw communication_error("tcp_listener: rank 0 cannot listen at port " + std::to_string(port) + " of '" + host +
                                "' (" + detail::system_text(code) +
                                "); end what holds the port, or give another in MASTER_PORT or HEDDLE_PORT");
  }

  [[nodiscard]] std::uint16_t port() const {
    sockaddr_storage at{};
    socklen_t size = sizeof(at);
    ::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&at), &size);
    return ntohs(at.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6 const&>(at).sin6_port
                                          : reinterpret_cast<sockaddr_in const&>(at).sin_port);
  }
  [[nodiscard]] int get() const { return socket_.get(); }

 private:
  /// The system's error, or 0.
  int listen(sockaddr const& at, socklen_t size) {
    detail::descriptor made(::socket(at.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!made) return errno;
    int const yes = 1, no = 0;
    ::setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (at.sa_family == AF_INET6) ::setsockopt(made.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
    if (::bind(made.get(), &at, size) != 0 || ::listen(made.get(), SOMAXCONN) != 0) return errno;
    detail::never_wait(made.get());
    socket_ = std::move(made);
    return 0;
  }

  detail::descriptor socket_;
};

}  // namespace heddle::comm
