// SPDX-License-Identifier: Apache-2.0
#include "host_driver/base/output_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <span>
#include <streambuf>
#include <string>
#include <utility>
#include <vector>

#include "host_driver/base/file_size_signal.hpp"
#include "host_driver/base/unique_fd.hpp"

namespace svp {

namespace {

// A descriptor as a stream. After an error nothing more is written, and error() says why.
class DescriptorBuffer : public std::streambuf {
 public:
  explicit DescriptorBuffer(int file) : file_(file), bytes_(std::size_t{64} * 1024) {
    setp(bytes_.data(), bytes_.data() + bytes_.size());
  }
  int error() const { return error_; }

 protected:
  int_type overflow(int_type next) override {
    if (sync() != 0) return traits_type::eof();
    if (!traits_type::eq_int_type(next, traits_type::eof())) sputc(traits_type::to_char_type(next));
    return traits_type::not_eof(next);
  }
  int sync() override {
    const char* at = pbase();
    while (at != pptr() && error_ == 0) {
      const ssize_t written = ::write(file_, at, static_cast<std::size_t>(pptr() - at));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) error_ = errno;
      if (written > 0) at += written;
    }
    setp(bytes_.data(), bytes_.data() + bytes_.size());
    return error_ == 0 ? 0 : -1;
  }

 private:
  int file_;
  int error_ = 0;
  std::vector<char> bytes_;
};

std::unexpected<ErrorInfo> cannot_write(const std::filesystem::path& path, int error) {
  std::string message = path.string() + " can not be written: " + std::strerror(error);
  std::string next = "name a file in a folder that can be written to";
  if (error == EFBIG) {
    message += " (RLIMIT_FSIZE)";
    next = "raise the limit on the size of files: ulimit -f unlimited";
  }
  if (error == ENOSPC || error == EDQUOT) next = "make room, or name a file of another file system";
  return std::unexpected(ErrorInfo{.layer = Layer::Driver,
                                   .source = path.string(),
                                   .outcome = wire::Outcome::Rejected,
                                   .recoverable = true,
                                   .next_step = std::move(next),
                                   .message = std::move(message)});
}

constexpr mode_t kAsTheUserWants = 0666;  // less what umask takes

int write_to(int file, const std::function<void(std::ostream&)>& content) {
  DescriptorBuffer buffer(file);
  std::ostream stream(&buffer);
  content(stream);
  stream.flush();
  return buffer.error();
}

Expected<void> write_in_place(const std::filesystem::path& path, const std::function<void(std::ostream&)>& content) {
  // Of a FIFO it waits for the reader: that is what its name asks for.
  UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, kAsTheUserWants));
  if (!file.valid()) return cannot_write(path, errno);
  if (const int error = write_to(file.get(), content); error != 0) return cannot_write(path, error);
  return {};
}

// Gone with the object unless it has got its name.
struct Temporary {
  explicit Temporary(const std::filesystem::path& path) {
    static std::atomic<unsigned> serial{0};
    name = path.string() + "." + std::to_string(::getpid()) + "-" + std::to_string(serial++) + ".tmp";
    file.reset(::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, kAsTheUserWants));
    error = file.valid() ? 0 : errno;
  }
  ~Temporary() {
    if (file.valid() && !named) ::unlink(name.c_str());
  }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;

  std::string name;
  UniqueFd file;
  int error = 0;
  bool named = false;
};

}  // namespace

Expected<void> write_output_file(const std::filesystem::path& path, const std::function<void(std::ostream&)>& content) {
  const FileSizeSignalHeld held;
  struct stat status{};
  const bool exists = ::lstat(path.c_str(), &status) == 0;
  if (exists && !S_ISREG(status.st_mode)) return write_in_place(path, content);
  Temporary temporary(path);
  if (!temporary.file.valid()) {
    if (exists && (temporary.error == EACCES || temporary.error == EPERM)) return write_in_place(path, content);
    return cannot_write(path, temporary.error);
  }
  int error = write_to(temporary.file.get(), content);
  if (error == 0 && exists && ::fchmod(temporary.file.get(), status.st_mode & 07777) != 0) error = errno;
  if (error == 0 && ::rename(temporary.name.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) return cannot_write(path, error);
  temporary.named = true;
  return {};
}

}  // namespace svp
