// SPDX-License-Identifier: Apache-2.0
#include "host_driver/discovery/runtime_folder.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "host_driver/base/file_size_signal.hpp"
#include "host_driver/base/timeouts.hpp"
#include "host_driver/discovery/local_socket.hpp"

namespace svp {

namespace {

constexpr const char* kLockName = "lock";
constexpr const char* kDescriptionName = "card.json";
constexpr const char* kNewDescriptionName = "card.json.new";
constexpr std::size_t kMaxDescription = 64 * 1024;
std::string because() { return std::generic_category().message(errno); }

ErrorInfo bad_folder(const std::filesystem::path& path, const std::string& what) {
  return refused_by_driver("runtime folder", "the runtime folder " + path.string() + " " + what,
                           std::string("name a folder of your own in ") + kRuntimeFolderVariable);
}

struct Opened {
  UniqueFd folder;
  bool own;
};

Expected<Opened> open_folder(const std::filesystem::path& path, bool foreign_too) {
  UniqueFd folder{::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
  if (!folder.valid()) {
    struct stat link{};
    const bool is_link = ::lstat(path.c_str(), &link) == 0 && S_ISLNK(link.st_mode);
    return std::unexpected(bad_folder(path, is_link ? "is a symbolic link" : "cannot be opened: " + because()));
  }
  struct stat info{};
  if (::fstat(folder.get(), &info) != 0) return std::unexpected(bad_folder(path, "cannot be examined: " + because()));
  const bool own = info.st_uid == ::geteuid();
  if (!own && !foreign_too) {
    return std::unexpected(bad_folder(path, "belongs to user " + std::to_string(info.st_uid)));
  }
  if ((info.st_mode & 0027) != 0) {
    return std::unexpected(bad_folder(path, "is open to others (mode must be 0700, or 0750 when cards are shared)"));
  }
  return Opened{std::move(folder), own};
}

UniqueFd open_entry(int folder, const std::string& name) {
  return UniqueFd{::openat(folder, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
}

std::string read_file(int folder, const char* name, std::size_t max_bytes) {
  const UniqueFd file{::openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)};
  std::string text(file.valid() ? max_bytes : 0, '\0');
  std::size_t read = 0;
  while (read < text.size()) {
    const ssize_t got = ::read(file.get(), text.data() + read, text.size() - read);  // bounded: a regular file of ours
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    read += static_cast<std::size_t>(got);
  }
  text.resize(read);
  return text;
}

bool write_all(int file, std::string_view text) {
  const FileSizeSignalHeld held;
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

bool share_file(int file, gid_t group) {
  return ::fchown(file, static_cast<uid_t>(-1), group) == 0 && ::fchmod(file, 0640) == 0;
}

// The pid that whoever holds the lock wrote into it; 0 when it has not yet.
pid_t holder_of(int folder) {
  const std::string text = read_file(folder, kLockName, 16);
  pid_t pid = 0;
  std::from_chars(text.data(), text.data() + text.size(), pid);
  return pid;
}

bool is_running(pid_t pid) { return pid > 0 && (::kill(pid, 0) == 0 || errno == EPERM); }

// Of the open file description: forked children share it, exec ends it (close-on-exec), and it can be asked for.
struct flock whole_file() {
  struct flock range{};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  return range;
}

bool lock_is_held(int folder) {
  const UniqueFd file{::openat(folder, kLockName, O_RDONLY | O_NOFOLLOW | O_CLOEXEC)};
  struct flock range = whole_file();
  return file.valid() && ::fcntl(file.get(), F_OFD_GETLK, &range) == 0 && range.l_type != F_UNLCK;
}

enum class Lock { Taken, Held, Absent };

// Takes the lock of an open folder, without waiting. Absent also when the file was removed or replaced meanwhile: a
// lock that no path leads to protects nothing.
Lock take_lock(int folder, bool create, UniqueFd& lock) {
  const int flags = O_RDWR | O_NOFOLLOW | O_CLOEXEC | (create ? O_CREAT : 0);
  UniqueFd file{::openat(folder, kLockName, flags, 0600)};
  if (!file.valid()) return Lock::Absent;
  struct flock range = whole_file();
  if (::fcntl(file.get(), F_OFD_SETLK, &range) != 0) return Lock::Held;
  struct stat ours{}, named{};
  if (::fstat(file.get(), &ours) != 0 || ::fstatat(folder, kLockName, &named, AT_SYMLINK_NOFOLLOW) != 0 ||
      ours.st_ino != named.st_ino || ours.st_dev != named.st_dev) {
    return Lock::Absent;
  }
  lock = std::move(file);
  return Lock::Taken;
}

bool sign_lock(int lock) {
  const std::string pid = std::to_string(::getpid()) + "\n";
  return ::ftruncate(lock, 0) == 0 && write_all(lock, pid);
}

// The lock is the last to go: while it is there, the folder is somebody's.
void empty_folder(int folder) {
  for (const char* name : {kSocketName, kManagementSocketName, kDescriptionName, kNewDescriptionName, kConsoleName,
                           kCardLogName, kDebuggerName, kLockName}) {
    ::unlinkat(folder, name, 0);
  }
}

// Of a folder that nobody's lock protects. Only what this program makes is removed; a folder with anything else stays.
bool remove_if_stale(int parent, const std::string& name) {
  const UniqueFd folder = open_entry(parent, name);
  if (!folder.valid()) return false;
  UniqueFd lock;
  switch (take_lock(folder.get(), false, lock)) {
    case Lock::Held: return false;
    case Lock::Taken: empty_folder(folder.get()); break;
    case Lock::Absent: return false;  // being made, being removed, or not ours
  }
  return ::unlinkat(parent, name.c_str(), AT_REMOVEDIR) == 0;
}

std::string home_of(int folder) { return "/proc/self/fd/" + std::to_string(folder); }

std::vector<std::string> folders_in(int folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator at{home_of(folder), error}, end; !error && at != end; at.increment(error)) {
    std::error_code unknown;
    if (std::filesystem::is_directory(at->symlink_status(unknown))) names.push_back(at->path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

ErrorInfo name_in_use(const std::string& name, int folder) {
  const pid_t pid = holder_of(folder);
  const std::string who = pid > 0 ? "process " + std::to_string(pid) : std::string("another process");
  return refused_by_driver(name, "the name " + name + " is in use by " + who,
                           "choose another name, or stop that card first");
}

}  // namespace

Expected<void> check_card_name(std::string_view name) {
  const auto allowed = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  };
  const bool option = name.starts_with('-');  // no command could be given it
  if (!name.empty() && name.size() <= kMaxCardName && std::ranges::all_of(name, allowed) && !option) return {};
  return std::unexpected(
      refused_by_driver("card name", "'" + std::string(name.substr(0, kMaxCardName)) + "' cannot be the name of a card",
                        "use 1 to 32 of the characters A-Z a-z 0-9 _ -, the first of which is not -"));
}

// ---- the folder of one card -----------------------------------------------------------------------------------------

CardFolder::CardFolder(std::filesystem::path path, UniqueFd parent, UniqueFd folder, UniqueFd lock)
    : path_(std::move(path)), parent_(std::move(parent)), folder_(std::move(folder)), lock_(std::move(lock)) {}

CardFolder& CardFolder::operator=(CardFolder&& other) noexcept {
  if (this == &other) return *this;
  remove();
  path_ = std::move(other.path_);
  parent_ = std::move(other.parent_);
  folder_ = std::move(other.folder_);
  lock_ = std::move(other.lock_);
  group_ = other.group_;
  return *this;
}

CardFolder::~CardFolder() { remove(); }

void CardFolder::remove() {
  if (!lock_.valid()) return;
  empty_folder(folder_.get());
  ::unlinkat(parent_.get(), path_.filename().c_str(), AT_REMOVEDIR);
  lock_.reset();
  folder_.reset();
  parent_.reset();
}

Expected<void> CardFolder::write_description(const CardDescription& card) const {
  const auto failed = [&] {
    return std::unexpected(refused_by_driver(kDescriptionName,
                                             "cannot write " + (path_ / kDescriptionName).string() + ": " + because(),
                                             "make room in the runtime folder's file system"));
  };
  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC;
  const UniqueFd file{::openat(folder_.get(), kNewDescriptionName, kFlags, 0600)};
  if (!file.valid() || !write_all(file.get(), to_json(card) + "\n")) return failed();
  if (group_ && !share_file(file.get(), *group_)) return failed();
  if (::renameat(folder_.get(), kNewDescriptionName, folder_.get(), kDescriptionName) != 0) return failed();
  return {};
}

Expected<void> CardFolder::share_with(gid_t group) {
  const auto share_folder = [&](int folder) {
    return ::fchown(folder, static_cast<uid_t>(-1), group) == 0 && ::fchmod(folder, 0750) == 0;
  };
  if (!share_folder(folder_.get()) || !share_folder(parent_.get()) || !share_file(lock_.get(), group)) {
    return std::unexpected(refused_by_driver(
        "group", "cannot share " + path_.string() + " with group " + std::to_string(group) + ": " + because(),
        "name a group that you are a member of"));
  }
  group_ = group;
  return {};
}

// ---- the folder of all cards ----------------------------------------------------------------------------------------

std::filesystem::path RuntimeFolder::default_path() {
  const auto named = [](const char* variable) -> std::optional<std::filesystem::path> {
    const char* value = std::getenv(variable);
    if (value == nullptr || *value == '\0') return std::nullopt;
    return std::filesystem::path(value);
  };
  if (auto own = named(kRuntimeFolderVariable)) return *std::move(own);
  if (auto session = named("XDG_RUNTIME_DIR")) return *session / "spyre";
  return "/tmp/spyre-" + std::to_string(::geteuid());
}

bool RuntimeFolder::is_named() {
  const char* value = std::getenv(kRuntimeFolderVariable);
  return value != nullptr && *value != '\0';
}

Expected<RuntimeFolder> RuntimeFolder::open(const std::filesystem::path& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return std::unexpected(bad_folder(path, "cannot be made: " + because()));
  }
  auto opened = open_folder(path, false);
  if (!opened) return std::unexpected(std::move(opened.error()));
  return RuntimeFolder(path, std::move(opened->folder), true);
}

Expected<RuntimeFolder> RuntimeFolder::visit(const std::filesystem::path& path) {
  auto opened = open_folder(path, is_named());
  if (!opened) return std::unexpected(std::move(opened.error()));
  return RuntimeFolder(path, std::move(opened->folder), opened->own);
}

Expected<RuntimeFolder> RuntimeFolder::create_private(std::string_view prefix) const {
  if (auto good = check_card_name(prefix); !good) return std::unexpected(std::move(good.error()));
  remove_stale();
  const std::string name = "." + std::string(prefix) + "-" + std::to_string(::getpid());
  if (::mkdirat(folder_.get(), name.c_str(), 0700) != 0 && errno != EEXIST) {
    return std::unexpected(bad_folder(path_ / name, "cannot be made: " + because()));
  }
  RuntimeFolder inner(path_ / name, open_entry(folder_.get(), name), true);
  if (!inner.folder_.valid() || take_lock(inner.folder_.get(), true, inner.lock_) != Lock::Taken) {
    return std::unexpected(bad_folder(inner.path_, "cannot be locked: " + because()));
  }
  (void)sign_lock(inner.lock_.get());
  return inner;
}

RuntimeFolder::~RuntimeFolder() {
  if (!lock_.valid()) return;
  remove_stale();
  ::unlinkat(folder_.get(), kLockName, 0);
  ::rmdir(path_.c_str());
}

unsigned RuntimeFolder::remove_stale() const {
  unsigned removed = 0;
  for (const std::string& name : folders_in(folder_.get())) {
    if (name.starts_with('.')) {
      const UniqueFd inner = open_entry(folder_.get(), name);
      for (const std::string& card : folders_in(inner.get())) removed += remove_if_stale(inner.get(), card) ? 1 : 0;
    }
    removed += remove_if_stale(folder_.get(), name) ? 1 : 0;
  }
  return removed;
}

std::vector<std::string> RuntimeFolder::held_cards() const {
  std::vector<std::string> names;
  for (std::string& name : folders_in(folder_.get())) {
    if (!check_card_name(name)) continue;
    const UniqueFd folder = open_entry(folder_.get(), name);
    if (folder.valid() && lock_is_held(folder.get())) names.push_back(std::move(name));
  }
  return names;
}

Expected<std::vector<CardDescription>> RuntimeFolder::cards() const {
  if (own_) remove_stale();
  std::vector<CardDescription> cards;
  for (const std::string& name : held_cards()) {
    const UniqueFd folder = open_entry(folder_.get(), name);
    // Stopped, or being removed, just now. Another user's process may have another number here, or none.
    if (!folder.valid() || (own_ && !is_running(holder_of(folder.get())))) continue;
    const std::string text = read_file(folder.get(), kDescriptionName, kMaxDescription);
    if (text.empty()) continue;  // still booting
    auto card = parse_card_description(text);
    if (!card) {
      card.error().message = name + ": " + card.error().message;
      return std::unexpected(std::move(card.error()));
    }
    if (card->name != name) {
      return std::unexpected(refused_by_driver("card.name",
                                               (path_ / name / kDescriptionName).string() + " describes another card",
                                               "stop that card and boot it again"));
    }
    cards.push_back(*std::move(card));
  }
  return cards;
}

Expected<std::optional<CardFolder>> RuntimeFolder::try_create(const std::string& name) const {
  const auto impossible = [&] {
    return std::unexpected(refused_by_driver(name,
                                             "cannot make the folder " + (path_ / name).string() + ": " + because(),
                                             "check the runtime folder's file system"));
  };
  if (::mkdirat(folder_.get(), name.c_str(), 0700) != 0 && errno != EEXIST) return impossible();
  UniqueFd folder = open_entry(folder_.get(), name);
  if (!folder.valid() && errno != ENOENT) return impossible();
  if (!folder.valid()) return std::nullopt;  // removed in between by somebody who took it for stale
  UniqueFd lock;
  const Lock taken = take_lock(folder.get(), true, lock);
  if (taken == Lock::Held && is_running(holder_of(folder.get())))
    return std::unexpected(name_in_use(name, folder.get()));
  if (taken != Lock::Taken) return std::nullopt;
  CardFolder card(path_ / name, folder_.duplicate(), std::move(folder), std::move(lock));
  // What a broker left that died.
  for (const char* left : {kSocketName, kManagementSocketName, kDescriptionName, kDebuggerName}) {
    ::unlinkat(card.folder_.get(), left, 0);
  }
  if (!sign_lock(card.lock_.get())) return impossible();
  return card;
}

Expected<CardFolder> RuntimeFolder::create_card(std::string_view given) const {
  if (auto good = check_card_name(given); !good) return std::unexpected(std::move(good.error()));
  const std::string name(given);
  remove_stale();
  const auto end = std::chrono::steady_clock::now() + kFolderCleanUp;
  while (std::chrono::steady_clock::now() < end) {
    auto card = try_create(name);
    if (!card) return std::unexpected(std::move(card.error()));
    if (!*card) {
      std::this_thread::yield();
      continue;
    }
    // Ours is one of them. Two that boot at once may both see one too many: then neither boots, never one too many.
    if (held_cards().size() > kMaxCards) {
      return std::unexpected(
          refused_by_driver(name, "there are " + std::to_string(kMaxCards) + " cards already", "stop one first"));
    }
    return std::move(**card);
  }
  return std::unexpected(
      refused_by_driver(name, "the folder of " + name + " is being made or removed by another process all the time",
                        "choose another name"));
}

Expected<std::filesystem::path> card_path(std::string_view card) {
  if (card.contains('/')) return std::filesystem::path(card);
  if (auto good = check_card_name(card); !good) return std::unexpected(std::move(good.error()));
  return RuntimeFolder::default_path() / card;
}

}  // namespace svp
