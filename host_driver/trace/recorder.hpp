// SPDX-License-Identifier: Apache-2.0
// Records what the driver does when the variable SPYRE_TRACE names a folder (`spyre trace` sets it). Without it a point
// costs one load and a branch. Entries are written without a lock, by any thread; when the file is full, later ones are
// counted and left out.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host_driver/base/error.hpp"
#include "host_driver/base/process.hpp"
#include "host_driver/trace/record.hpp"

namespace svp::trace {

inline constexpr const char* kFolderVariable = "SPYRE_TRACE";
inline constexpr const char* kRecordsVariable = "SPYRE_TRACE_RECORDS";
inline constexpr std::uint64_t kDefaultRecords = std::uint64_t{1} << 18;  // 32 MiB of a sparse file
inline constexpr std::uint64_t kMostRecords = std::uint64_t{1} << 26;

class Recorder {
 public:
  // Makes a file of its own in the folder. Errors name the variable that is wrong.
  static Expected<std::unique_ptr<Recorder>> open(const std::string& folder, std::uint64_t records);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // Nanoseconds of CLOCK_MONOTONIC.
  static std::uint64_t now() noexcept;

  // The number by which entries name a function of a card. One that was closed gets its number again when it is opened
  // with the same name; two that are open with one name get two. 0: no memory for it.
  std::uint32_t open_card(std::string_view name) noexcept;
  void close_card(std::uint32_t card) noexcept;

  // The next entry, or nullptr: the file is full, or this is a forked child. Fill it in and commit() it.
  Record* take(Kind kind) noexcept;
  static void commit(Record& record) noexcept { record.written.store(1, std::memory_order_release); }
  static void set_text(Record& record, std::string_view text) noexcept;

  std::uint64_t lost() const noexcept;
  const std::string& path() const { return path_; }

 private:
  Recorder(std::string path, void* mapping, std::size_t bytes, std::uint64_t capacity);
  FileHeader& header() const { return *static_cast<FileHeader*>(mapping_); }

  const std::string path_;
  void* const mapping_;
  const std::size_t bytes_;
  const std::uint64_t capacity_;
  const OwnerProcess process_;
  std::mutex mutex_;
  struct Card {
    std::string name;
    bool open;
  };
  std::vector<Card> cards_;
};

namespace detail {
extern std::atomic<Recorder*> process_recorder;
}

// Of this process; nullptr: nothing is recorded.
inline Recorder* recorder() noexcept { return detail::process_recorder.load(std::memory_order_acquire); }

// When the variables ask for it and nothing is recorded yet. Errors: as Recorder::open(), or SPYRE_TRACE_RECORDS is no
// number from 1 to kMostRecords. It goes on to the end of the process.
Expected<void> start_from_environment();

// What the entry of an interval says besides its times.
struct SpanFields {
  Kind kind = Kind::None;
  std::uint32_t card = 0;
  std::uint32_t stream = kNoStream;
  std::uint64_t launch = 0;
  std::uint32_t tile = 0;
  std::uint32_t step = 0;
  std::uint64_t bytes = 0;
  std::string_view text{};  // what it names exists until the interval has ended
};

// An interval of this thread, recorded at its end.
class Span {
 public:
  explicit Span(Kind kind) noexcept : recorder_(recorder()) {
    if (recorder_ != nullptr) [[unlikely]]
      begin(kind);
  }
  ~Span() {
    if (recorder_ != nullptr) [[unlikely]]
      end();
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

  // nullptr: nothing is recorded.
  SpanFields* fields() noexcept { return recorder_ != nullptr ? &*fields_ : nullptr; }
  // Nothing happened that is worth an entry.
  void drop() noexcept { recorder_ = nullptr; }

 private:
  void begin(Kind kind) noexcept;
  void end() noexcept;

  Recorder* recorder_;
  std::uint64_t begin_ = 0;
  std::optional<SpanFields> fields_;
};

// Something that took no time.
namespace detail {
[[gnu::cold]] void record_instant(Recorder& recorder, Kind kind, std::uint32_t card) noexcept;
}
inline void instant(Kind kind, std::uint32_t card) noexcept {
  if (Recorder* const to = recorder(); to != nullptr) [[unlikely]]
    detail::record_instant(*to, kind, card);
}

}  // namespace svp::trace
