// SPDX-License-Identifier: Apache-2.0
#include "host_driver/trace/recorder.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <new>
#include <system_error>
#include <utility>

#include "host_driver/base/file_size_signal.hpp"
#include "host_driver/base/unique_fd.hpp"

namespace svp::trace {

namespace detail {
std::atomic<Recorder*> process_recorder{nullptr};
}

namespace {

ErrorInfo refused(const char* variable, std::string what, std::string next_step) {
  return refused_by_driver(variable, std::move(what), std::move(next_step));
}

std::uint32_t this_thread() noexcept {
  thread_local const auto id = static_cast<std::uint32_t>(::syscall(SYS_gettid));
  return id;
}

// The file's name is new: of a number that follows the pid.
Expected<std::pair<UniqueFd, std::string>> make_file(const std::string& folder) {
  for (unsigned n = 0; n < 1000; ++n) {
    std::string path = folder + "/" + std::to_string(::getpid()) + "." + std::to_string(n) + kFileSuffix;
    UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (file.valid()) return std::pair(std::move(file), std::move(path));
    if (errno == EEXIST) continue;
    return std::unexpected(refused(kFolderVariable,
                                   "no trace can be written to " + path + ": " + std::generic_category().message(errno),
                                   "name a folder that exists and that you may write to"));
  }
  return std::unexpected(refused(kFolderVariable, "the folder " + folder + " has a thousand traces of this process",
                                 "name an empty folder"));
}

void write_header(FileHeader& header, std::uint64_t capacity) {
  header.version = kFileVersion;
  header.record_bytes = sizeof(Record);
  header.capacity = capacity;
  header.process = static_cast<std::uint32_t>(::getpid());
  const std::string_view program = program_invocation_short_name;
  std::memcpy(header.program, program.data(), std::min(program.size(), sizeof header.program - 1));
  std::atomic_ref(header.magic).store(kFileMagic, std::memory_order_release);
}

}  // namespace

Expected<std::unique_ptr<Recorder>> Recorder::open(const std::string& folder, std::uint64_t records) {
  if (records == 0 || records > kMostRecords) {
    return std::unexpected(refused(kRecordsVariable, std::to_string(records) + " entries were asked for",
                                   "give 1 to " + std::to_string(kMostRecords)));
  }
  auto file = make_file(folder);
  if (!file) return std::unexpected(std::move(file.error()));
  const std::size_t bytes = kFileHeaderBytes + records * sizeof(Record);
  void* mapping = MAP_FAILED;
  // All of it now: a file system that is full later would end the process with SIGBUS.
  const FileSizeSignalHeld held;
  int error = ::posix_fallocate(file->first.get(), 0, static_cast<off_t>(bytes));
  if (error == 0) {
    mapping = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file->first.get(), 0);
    error = errno;
  }
  if (mapping == MAP_FAILED) {
    const std::string why = std::generic_category().message(error);
    ::unlink(file->second.c_str());
    return std::unexpected(refused(kFolderVariable, file->second + " can not be mapped: " + why,
                                   "name a folder of a file system that has room, or ask for fewer entries"));
  }
  write_header(*static_cast<FileHeader*>(mapping), records);
  return std::unique_ptr<Recorder>(new Recorder(std::move(file->second), mapping, bytes, records));
}

Recorder::Recorder(std::string path, void* mapping, std::size_t bytes, std::uint64_t capacity)
    : path_(std::move(path)), mapping_(mapping), bytes_(bytes), capacity_(capacity) {}

Recorder::~Recorder() { ::munmap(mapping_, bytes_); }

std::uint64_t Recorder::now() noexcept {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}

std::uint32_t Recorder::open_card(std::string_view name) noexcept try {
  const std::lock_guard guard(mutex_);
  std::size_t same = 0;
  for (std::size_t i = 0; i < cards_.size(); ++i) {
    if (cards_[i].name != name) continue;
    ++same;
    if (!std::exchange(cards_[i].open, true)) return static_cast<std::uint32_t>(i) + 1;
  }
  cards_.push_back({std::string(name), true});
  const auto number = static_cast<std::uint32_t>(cards_.size());
  if (Record* record = take(Kind::Card)) {
    record->begin = record->end = now();
    record->card = number;
    set_text(*record, same == 0 ? std::string(name) : std::string(name) + " #" + std::to_string(same + 1));
    commit(*record);
  }
  return number;
} catch (const std::bad_alloc&) {
  return 0;
}

void Recorder::close_card(std::uint32_t card) noexcept {
  const std::lock_guard guard(mutex_);
  if (card != 0) cards_[card - 1].open = false;
}

Record* Recorder::take(Kind kind) noexcept {
  if (!process_.is_this()) return nullptr;  // the parent's file
  const std::uint64_t index = header().taken.fetch_add(1, std::memory_order_relaxed);
  if (index >= capacity_) return nullptr;
  auto* place = static_cast<std::byte*>(mapping_) + kFileHeaderBytes + index * sizeof(Record);
  auto* record = new (place) Record;
  record->kind = kind;
  record->thread = this_thread();
  return record;
}

void Recorder::set_text(Record& record, std::string_view text) noexcept {
  std::memcpy(record.text, text.data(), std::min(text.size(), kTextBytes));
}

std::uint64_t Recorder::lost() const noexcept {
  const std::uint64_t taken = header().taken.load(std::memory_order_relaxed);
  return taken > capacity_ ? taken - capacity_ : 0;
}

Expected<void> start_from_environment() {
  static std::mutex starting;
  const std::lock_guard guard(starting);
  const char* folder = std::getenv(kFolderVariable);
  if (folder == nullptr || *folder == '\0' || recorder() != nullptr) return {};
  std::uint64_t records = kDefaultRecords;
  if (const char* wanted = std::getenv(kRecordsVariable); wanted != nullptr && *wanted != '\0') {
    const char* end = wanted + std::strlen(wanted);
    const auto [stop, error] = std::from_chars(wanted, end, records);
    if (error != std::errc() || stop != end) {
      return std::unexpected(refused(kRecordsVariable, "\"" + std::string(wanted) + "\" is no number of entries",
                                     "give 1 to " + std::to_string(kMostRecords)));
    }
  }
  auto opened = Recorder::open(folder, records);
  if (!opened) return std::unexpected(std::move(opened.error()));
  // Never destroyed: threads of the driver may record until the process ends.
  detail::process_recorder.store(opened->release(), std::memory_order_release);
  return {};
}

void Span::begin(Kind kind) noexcept {
  fields_.emplace().kind = kind;
  begin_ = Recorder::now();
}

void Span::end() noexcept {
  Record* record = recorder_->take(fields_->kind);
  if (record == nullptr) return;
  record->begin = begin_;
  record->end = Recorder::now();
  record->card = fields_->card;
  record->stream = fields_->stream;
  record->launch = fields_->launch;
  record->tile = fields_->tile;
  record->step = fields_->step;
  record->bytes = fields_->bytes;
  Recorder::set_text(*record, fields_->text);
  Recorder::commit(*record);
}

void detail::record_instant(Recorder& recorder, Kind kind, std::uint32_t card) noexcept {
  if (Record* record = recorder.take(kind)) {
    record->begin = record->end = Recorder::now();
    record->card = card;
    Recorder::commit(*record);
  }
}

}  // namespace svp::trace
