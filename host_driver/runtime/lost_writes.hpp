// SPDX-License-Identifier: Apache-2.0
// RecoveryPolicy::Recover: what launches that failed or were removed would have written. A launch that reads any of it
// is not sent again. Device memory is known by region and offset, host memory by address; what is not known (a function
// of the host, memory behind a converter) counts as all host memory.
//
//   ended other than OK ─► lost ─► a launch that writes it ended OK, or all memory is new ─► forgotten
//   removed, to be sent again by its own stream ─► kept ─► sent, or dropped
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace svp {

struct Unit;

// Bytes begin … end - 1 of a region, or of host memory.
struct ByteRange {
  static constexpr std::uint64_t kWindow = ~std::uint64_t{0};        // pinned: offsets in the window
  static constexpr std::uint64_t kPageable = ~std::uint64_t{0} - 1;  // addresses of the program

  std::uint64_t space = 0;  // region id, kWindow or kPageable
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  bool overlaps(const ByteRange& other) const { return space == other.space && begin < other.end && other.begin < end; }
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

// Any ranges. Beyond kMost of them those of a space become one that contains them.
class RangeSet {
 public:
  static constexpr std::size_t kMost = 1024;

  bool empty() const { return ranges_.empty(); }
  std::size_t size() const { return ranges_.size(); }
  void clear() { ranges_.clear(); }
  void add(const ByteRange& range);
  void add(const RangeSet& other);
  void remove(const ByteRange& range);
  void remove(const RangeSet& other);
  bool overlaps(const RangeSet& other) const;

 private:
  void merge();
  std::vector<ByteRange> ranges_;
};

// What a unit reads and writes, as far as other launches can see it: its kernel's image is read; correction tensors and
// partial results are the driver's own.
struct Accesses {
  RangeSet reads;
  RangeSet writes;
};
void add_accesses(const Unit& unit, Accesses& accesses);

// Of all streams of a runtime. Thread-safe. When memory is short everything counts as lost.
class LostWrites {
 public:
  // A unit has ended other than OK, or OK.
  void note_lost(const Unit& unit) noexcept;
  void note_written(const Unit& unit) noexcept {
    if (any_.load(std::memory_order_acquire)) [[unlikely]]
      forget_written(unit);
  }
  // A stream keeps it to send it again; and sends or drops all that it kept.
  void note_kept(const void* stream, const Unit& unit) noexcept;
  void end_kept(const void* stream) noexcept;
  // All memory is new: nothing of before is sent again.
  void clear() noexcept;

  // What a launch that `stream` sends again must not read: all that is lost, and what other streams keep. False:
  // everything.
  bool seen_by(const void* stream, RangeSet& lost) const noexcept;

 private:
  struct Kept {
    const void* stream;
    RangeSet writes;
  };
  void forget_written(const Unit& unit) noexcept;
  void lose_everything() noexcept;

  mutable std::mutex mutex_;
  RangeSet lost_;
  std::vector<Kept> kept_;
  bool everything_ = false;
  std::atomic<bool> any_{false};  // lost_ is not empty
};

}  // namespace svp
