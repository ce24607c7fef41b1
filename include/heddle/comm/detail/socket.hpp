// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sockets that never wait, and are closed.
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include <heddle/comm/errors.hpp>

namespace heddle::comm::detail {

/// A file descriptor of its own, or none.
class descriptor {
 public:
  descriptor() = default;
  explicit descriptor(int fd) : fd_(fd) {}
  descriptor(descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  descriptor& operator=(descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

[[nodiscard]] inline std::string system_text(int code) { return std::strerror(code); }

inline void never_wait(int fd) { ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK); }

/// Small messages at once; a machine that is lost is known for it within half a minute.
inline void prepare_connection(int fd) {
  never_wait(fd);
  auto const set = [fd](int level, int option, int value) { ::setsockopt(fd, level, option, &value, sizeof(value)); };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  // While something is on its way there is no keep-alive, and a lost machine would be tried for a quarter of an hour.
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 25000);
}

using addresses = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

/// Those of a name.
[[nodiscard]] inline addresses addresses_of(std::string const& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  int const code = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (code != 0 || found == nullptr)
    throw communication_error("tcp_exchange: the machine of rank 0, '" + host + "', has no address (" +
                              ::gai_strerror(code) +
                              "); give in MASTER_ADDR a name or address that this machine knows");
  return {found, &::freeaddrinfo};
}

/// "127.0.0.1:4000"
[[nodiscard]] inline std::string address_text(sockaddr const* address, socklen_t size) {
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  if (::getnameinfo(address, size, host.data(), host.size(), port.data(), port.size(),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return "an unknown address";
  return std::string(host.data()) + ':' + port.data();
}

}  // namespace heddle::comm::detail
