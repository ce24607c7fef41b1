// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <heddle/detail/joined_text.hpp>
#include <heddle/error.hpp>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace heddle::detail {

/// Throws "'path': cannot action (reason); remedy" with the reason of errno.
[[noreturn, gnu::cold]] inline void throw_file_error(std::string const& path, char const* action, char const* remedy) {
  int const code = errno;
  throw error(
      joined_text({"'", path, "': cannot ", action, " (", std::generic_category().message(code), "); ", remedy}));
}

/// An owned POSIX file descriptor with the name it was opened by; every failure is a heddle::error that names the file.
class file {
 public:
  /// Opens an existing regular file for reading.
  static file open_to_read(std::string const& path) {
    int const descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) throw_file_error(path, "be opened to read", "check the name and the permissions");
    file out(path, descriptor);
    struct stat status {};
    if (::fstat(descriptor, &status) != 0) throw_file_error(path, "be examined", "check the file system");
    if (!S_ISREG(status.st_mode))
      throw error(joined_text({"'", path, "': is not a regular file; give the name of a file"}));
    out.size_ = static_cast<std::uint64_t>(status.st_size);
    return out;
  }

  /// Creates a file beside `target`, under a name that no other has. A name that is taken is passed over: a killed
  /// process, or one of another machine that shares the folder, may have had the same number.
  static file create_beside(std::string const& target) {
    static std::atomic<unsigned> number{0};
    for (;;) {
      std::string path = target + "." + std::to_string(::getpid()) + "-" + std::to_string(number++) + ".partial";
      int const descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      if (descriptor >= 0) return file(std::move(path), descriptor);
      if (errno != EEXIST) throw_file_error(path, "be created", "check that its folder exists and may be written");
    }
  }

  file(file&& other) noexcept
      : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)), size_(other.size_) {}
  file& operator=(file&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(descriptor_, other.descriptor_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~file() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }

  std::string const& path() const { return path_; }

  /// Bytes of a file opened to read, at the time it was opened.
  std::uint64_t size() const { return size_; }

  /// Reads exactly `count` bytes from `offset`. Any number of threads may read at once.
  void read_at(std::uint64_t offset, void* out, std::size_t count) const {
    auto* to = static_cast<char*>(out);
    while (count > 0) {
      ssize_t const got = ::pread(descriptor_, to, count, static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw_file_error(path_, "be read", "check the disk");
      if (got == 0)
        throw error(joined_text({"'", path_, "': ends at byte ", offset, ", but had ", size_,
                                 " bytes when it was opened; do not change it while it is read"}));
      to += got;
      offset += static_cast<std::uint64_t>(got);
      count -= static_cast<std::size_t>(got);
    }
  }

  /// Appends all bytes.
  void write(std::string_view bytes) {
    while (!bytes.empty()) {
      ssize_t const put = ::write(descriptor_, bytes.data(), bytes.size());
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) throw_file_error(path_, "be written", "check the space on the disk");
      bytes.remove_prefix(static_cast<std::size_t>(put));
    }
  }

  /// Overwrites bytes at `offset`; what `write` appends next is not affected.
  void write_at(std::uint64_t offset, std::string_view bytes) {
    while (!bytes.empty()) {
      ssize_t const put = ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) throw_file_error(path_, "be written", "check the space on the disk");
      bytes.remove_prefix(static_cast<std::size_t>(put));
      offset += static_cast<std::uint64_t>(put);
    }
  }

  /// Returns once the bytes are on the disk.
  void synchronize() {
    if (::fsync(descriptor_) != 0) throw_file_error(path_, "be brought to the disk", "check the disk");
  }

 private:
  friend class atomic_file;
  file(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

  std::string path_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

/// A file that appears under its name complete or not at all: it is written beside that name, brought to the disk and
/// renamed. Without `commit` (an exception, say) nothing changes under the name and the unfinished file is removed.
class atomic_file {
 public:
  explicit atomic_file(std::string path) : target_(replaceable(std::move(path))), file_(file::create_beside(target_)) {}
  atomic_file(atomic_file const&) = delete;
  atomic_file& operator=(atomic_file const&) = delete;
  ~atomic_file() {
    if (!committed_) ::unlink(file_.path().c_str());
  }

  void write(std::string_view bytes) { file_.write(bytes); }
  void write_at(std::uint64_t offset, std::string_view bytes) { file_.write_at(offset, bytes); }

  /// Replaces what was under the name. Returns the file, still open to append.
  file commit() {
    file_.synchronize();
    if (::rename(file_.path().c_str(), target_.c_str()) != 0)
      throw_file_error(target_, "be replaced", "check that its folder may be written and that no folder has this name");
    committed_ = true;
    file_.path_ = target_;
    auto const slash = target_.rfind('/');
    std::string const folder = slash == std::string::npos ? "." : target_.substr(0, slash + 1);
    int const descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) throw_file_error(folder, "be opened to make a new name last", "check the permissions");
    file const opened(folder, descriptor);
    // EINVAL: a file system whose folders need no such call.
    if (::fsync(descriptor) != 0 && errno != EINVAL)
      throw_file_error(folder, "be brought to the disk", "check the disk");
    return std::move(file_);
  }

 private:
  /// The path, where it names a regular file or nothing: a device or a pipe would be gone, and a folder cannot be.
  static std::string replaceable(std::string path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode))
      throw error(
          joined_text({"'", path, "': is not a regular file; give a name that is free, or that of a file to replace"}));
    return path;
  }

  std::string target_;
  file file_;
  bool committed_ = false;
};

}  // namespace heddle::detail
