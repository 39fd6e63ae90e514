// SPDX-License-Identifier: Apache-2.0
#include "host_driver/spyrecode/directory.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <ostream>
#include <system_error>

#include "host_driver/base/output_file.hpp"
#include "host_driver/spyrecode/spyre_code.hpp"

namespace svp::spyrecode {

namespace {

[[noreturn]] void refuse_file(
    const std::string& source, const std::string& what,
    const char* next = "name a directory that spyre spyrecode make or a compiler has written") {
  throw InvalidPlan(source, what, next);
}

std::string reason(int error) { return std::generic_category().message(error); }

FileIdentity identity_of(const struct stat& status) {
  const auto nanoseconds = [](const timespec& time) { return time.tv_sec * 1'000'000'000 + time.tv_nsec; };
  return {.device = status.st_dev,
          .inode = status.st_ino,
          .bytes = static_cast<std::uint64_t>(status.st_size),
          .modified_ns = nanoseconds(status.st_mtim),
          .changed_ns = nanoseconds(status.st_ctim)};
}

struct stat status_of(const UniqueFd& file, const std::string& name) {
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) refuse_file(name, "can not look at " + name + ": " + reason(errno));
  if (!S_ISREG(status.st_mode)) refuse_file(name, name + " is no regular file");
  return status;
}

// As many bytes as there are, up to `bytes`.
std::vector<std::byte> read_bytes(const UniqueFd& file, std::uint64_t bytes, const std::string& name) {
  std::vector<std::byte> content(bytes);
  std::size_t at = 0;
  while (at < content.size()) {
    const ssize_t got =
        ::read(file.get(), content.data() + at, content.size() - at);  // bounded: a regular file never waits
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse_file(name, "can not read " + name + ": " + reason(errno));
    if (got == 0) break;
    at += static_cast<std::size_t>(got);
  }
  content.resize(at);
  return content;
}

FileContent read_whole(const UniqueFd& file, const struct stat& status, std::uint64_t most, const std::string& name) {
  const auto bytes = static_cast<std::uint64_t>(status.st_size);
  if (bytes > most) {
    refuse_file(name, name + " has " + std::to_string(bytes) + " bytes, more than " + std::to_string(most));
  }
  return {read_bytes(file, bytes, name), identity_of(status)};
}

// "a/b.bin" as its components; empty: the name leads out of the directory, or names no file.
std::vector<std::string> components_of(const std::string& name) {
  std::vector<std::string> components;
  std::string_view left = name;
  while (true) {
    const std::size_t slash = left.find('/');
    const std::string_view component = left.substr(0, slash);
    if (component.empty() || component == "." || component == ".." || component.contains('\0')) return {};
    components.emplace_back(component);
    if (slash == std::string_view::npos) return components;
    left.remove_prefix(slash + 1);
  }
}

}  // namespace

Directory::Directory(const std::filesystem::path& path) {
  std::error_code error;
  path_ = std::filesystem::canonical(path, error);
  if (error) refuse_file("directory", "there is no directory " + path.string() + ": " + error.message());
  fd_.reset(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd_.valid()) return;
  const int failure = errno;
  refuse_file("directory", failure == ENOTDIR ? path.string() + " is no directory"
                                              : "can not open the directory " + path.string() + ": " + reason(failure));
}

// Component by component, so that no symbolic link on the way is followed. Never waits: a pipe opens at once.
UniqueFd Directory::open(const std::string& name, struct stat& status) const {
  const std::vector<std::string> components = components_of(name);
  if (components.empty()) {
    refuse_file(name, "'" + name + "' leads out of the directory, or names no file of it",
                "name files of the directory");
  }
  const auto open_one = [&](int folder, std::size_t index) {
    const char* component = components[index].c_str();
    const int folders_only = index + 1 == components.size() ? 0 : O_DIRECTORY;
    UniqueFd opened(::openat(folder, component, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | folders_only));
    if (opened.valid()) return opened;
    const int failure = errno;
    struct stat found{};
    const bool link = ::fstatat(folder, component, &found, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(found.st_mode);
    if (link) refuse_file(name, name + " leads through a symbolic link", "put the file itself into the directory");
    if (failure == ENOENT) refuse_file(name, "there is no file " + name + " in " + path_.string());
    refuse_file(name, "can not open " + name + ": " + reason(failure));
  };
  UniqueFd file = open_one(fd_.get(), 0);
  for (std::size_t i = 1; i < components.size(); ++i) file = open_one(file.get(), i);
  status = status_of(file, name);
  return file;
}

FileContent Directory::read(const std::string& name, std::uint64_t bytes) const {
  struct stat status{};
  const UniqueFd file = open(name, status);
  FileContent content{.bytes = {}, .identity = identity_of(status)};
  if (content.identity.bytes >= bytes) content.bytes = read_bytes(file, bytes, name);
  if (content.bytes.size() < bytes) {
    refuse_file(name, name + " has " + std::to_string(content.identity.bytes) + " bytes, and " + std::to_string(bytes) +
                          " are to be transferred");
  }
  return content;
}

FileContent Directory::read_all(const std::string& name, std::uint64_t most) const {
  struct stat status{};
  const UniqueFd file = open(name, status);
  return read_whole(file, status, most, name);
}

FileIdentity Directory::identity(const std::string& name) const {
  struct stat status{};
  const UniqueFd file = open(name, status);
  return identity_of(status);
}

FileContent read_file(const std::filesystem::path& path, std::uint64_t most) {
  const std::string name = path.string();
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) {
    const int failure = errno;
    refuse_file(name, "can not open " + name + ": " + reason(failure), "name a file that exists and can be read");
  }
  return read_whole(file, status_of(file, name), most, name);
}

// ---- writing --------------------------------------------------------------------------------------------------------

namespace {

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& what, const std::string& why) {
  throw Error({.layer = Layer::Driver,
               .source = path.string(),
               .outcome = wire::Outcome::Rejected,
               .recoverable = true,
               .next_step = "name a place where a directory can be written",
               .message = what + " " + path.string() + ": " + why});
}

// A reader sees the file of before or this one, never a part.
void write_one(const std::filesystem::path& directory, const NamedBytes& file) {
  value_or_throw(write_output_file(directory / file.name, [&](std::ostream& out) {
    out.write(reinterpret_cast<const char*>(file.bytes.data()), static_cast<std::streamsize>(file.bytes.size()));
  }));
}

}  // namespace

void write_files(const std::filesystem::path& directory, std::span<const NamedBytes> files) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (!error && !std::filesystem::is_directory(directory, error) && !error) {
    error = std::make_error_code(std::errc::not_a_directory);
  }
  if (error) fail(directory, "can not make the directory", error.message());
  for (const NamedBytes& file : files) write_one(directory, file);
}

}  // namespace svp::spyrecode
