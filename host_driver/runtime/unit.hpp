// SPDX-License-Identifier: Apache-2.0
// The records behind a launch, recycled: no heap in the steady state. A unit is what ends in exactly one outcome: one
// control block, one staged transfer, one function of the host, one chunk of a staged transfer (which reports to its
// transfer), or the tiles of a launch that have not been made into blocks yet.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "host_driver/memory/flex_allocator.hpp"
#include "host_driver/memory/host_memory.hpp"
#include "host_driver/runtime/launch_observer.hpp"
#include "host_driver/runtime/operand_table.hpp"
#include "host_driver/runtime/prepared_launches.hpp"
#include "host_driver/runtime/recorded_use.hpp"
#include "host_driver/runtime/scratchpads.hpp"
#include "host_driver/runtime/staging.hpp"
#include "host_driver/runtime/stream_error.hpp"
#include "host_driver/runtime/stream_states.hpp"
#include "shared/control_block.hpp"

namespace svp {

class Event;
class Kernel;
class SlotMemory;
class TileBlocks;
struct HostCall;

struct Unit;

// What a function of the program threw, as a text: the exception is let go of on the thread of the function, with no
// lock held, because its what() and its destructor are the program's code.
struct HostFailure {
  std::string text;  // ": " and what(), or that it is no std::exception. Empty: there was no memory for it
};

// Singly linked, first in first out.
template <typename T>
struct LinkedList {
  T* head = nullptr;
  T* tail = nullptr;

  bool empty() const { return head == nullptr; }
  void push(T* item) {
    item->next = nullptr;
    (tail == nullptr ? head : tail->next) = item;
    tail = item;
  }
  T* pop() {
    T* item = head;
    head = item->next;
    if (head == nullptr) tail = nullptr;
    return item;
  }
  void append(LinkedList& other) {
    if (other.empty()) return;
    (tail == nullptr ? head : tail->next) = other.head;
    tail = other.tail;
    other = {};
  }
};

// Records that the next tiles of a launch are written into; blocks that ended come back here.
struct SpareBlocks {
  LinkedList<Unit> corrections;  // each with its correction buffer
  LinkedList<Unit> computes;
};

// One FlexStream::Launch under way.
struct LaunchState {
  LaunchState* next = nullptr;
  std::uint64_t number = 0;
  std::uint64_t total = 0;  // units, also those of tiles that have not been made into blocks yet
  std::uint64_t left = 0;   // of them that have not ended
  wire::Outcome outcome = wire::Outcome::Ok;
  LaunchObserver* observer = nullptr;
  const Kernel* kernel = nullptr;             // of the job; null for transfers
  SharedOperandTable operands{};              // of a launch with more operands than a block has rows
  LinkedList<Unit> kept{};                    // removed before they started; sent again after a reset of the stream
  AllocationUses uses{};                      // what the card still reads and writes: operands, transfers
  RecordedUses recorded{};                    // what was released and is kept for this launch and those before it
  std::shared_ptr<const void> program{};      // and the loaded program
  std::shared_ptr<SlotMemory> slots{};        // for its corrections; null: the stream's first slot
  std::shared_ptr<const void> keep_alive{};   // the caller's
  std::shared_ptr<TileBlocks> tiles{};        // writes the blocks of a tiled launch; null: all are written
  SpareBlocks spare{};                        // empty unless some have still to be written
  std::optional<HostFailure> host_failure{};  // what the HostOperation of the next tile threw
  bool barrier = false;                       // begins when all launches before it have ended
  std::vector<AwaitedUse> after{};            // of other streams: begins when these have ended
  std::optional<ClearedSlices> clears{};      // what its Fill clears

  // Runs destructors of the caller's: with no lock held.
  void let_go() noexcept {
    uses.let_go();
    operands.reset();
    recorded.let_go();
    program.reset();
    slots.reset();
    keep_alive.reset();
    tiles.reset();
    host_failure.reset();
    after.clear();
  }
};

// Pinned bytes for one correction tensor.
struct CorrectionBuffer {
  std::byte* bytes = nullptr;
  std::uint64_t window_offset = 0;
  std::uint8_t size_class = 0;
};

// Progress of a transfer of pageable memory.
struct StagedTransfer {
  std::byte* host = nullptr;
  StagedConverter* converter = nullptr;  // instead of `host`
  std::uint64_t converter_offset = 0;    // of this transfer's first byte in what the converter moves
  std::uint64_t bytes = 0;
  bool to_device = true;
  StateMachine<TransferStage> stage{};
  std::uint64_t assigned = 0;   // bytes given to chunks
  std::uint64_t submitted = 0;  // bytes whose DMA stands in the stream
  std::uint32_t chunks = 0;     // held
  bool reads = false;           // it is counted in StreamChannel::reads_
  wire::Completion end{};       // collected from the chunks; first outcome that is not OK wins
};

struct Unit {
  enum class Kind : std::uint8_t { Block, Staged, Chunk, HostCall, Tiles };

  Unit* next = nullptr;
  LaunchState* launch = nullptr;
  Kind kind = Kind::Block;
  std::uint32_t tile = 0;
  std::uint32_t step = 0;
  SegmentWindows windows{};
  CorrectionBuffer correction{};
  std::uint32_t slot = 0;    // on the card, of a correction DMA (CorrectionSlots)
  bool leaves_out = false;   // a correction DMA whose bytes are in the slot already
  Unit* left_out = nullptr;  // of a compute with the card: such a DMA
  Event* event = nullptr;    // of a signal or a wait; the launch keeps it
  HostCall* call = nullptr;  // HostCall; the launch keeps it
  // Of a call of a command buffer, number `step` of them; the launch keeps it.
  const PreparedLaunches::State* prepared = nullptr;
  StagingChunk* chunk = nullptr;  // Chunk
  Unit* owner = nullptr;          // Chunk: its Staged unit
  std::uint64_t sent = 0;         // nanoseconds of CLOCK_MONOTONIC; 0: not sent yet, or nothing is traced
  StagedTransfer staged{};        // Staged
  wire::ControlBlock block{};     // Staged: the transfer as if it were one DMA; Tiles: a compute, as far as known
};

// Records in slabs that are never given back before the pool is.
template <typename T, std::size_t kSlab = 64>
class RecordPool {
 public:
  T* take() {
    if (free_ == nullptr) grow();
    T* record = free_;
    free_ = record->next;
    record->next = nullptr;
    return record;
  }
  void give(T* record) {
    record->next = free_;
    free_ = record;
  }

 private:
  void grow() {
    slabs_.push_back(std::make_unique<T[]>(kSlab));
    for (std::size_t i = 0; i < kSlab; ++i) give(&slabs_.back()[i]);
  }
  std::vector<std::unique_ptr<T[]>> slabs_;
  T* free_ = nullptr;
};

// Pinned memory for correction tensors and patches in seven sizes, 512 bytes to 32 KiB.
class CorrectionPool {
 public:
  explicit CorrectionPool(HostMemory& memory) : memory_(memory) {}

  // Throws OutOfMemory. `bytes` at most kMost.
  static constexpr std::uint64_t kMost = 32 * wire::kKiB;
  CorrectionBuffer take(std::uint64_t bytes) {
    const auto size_class = static_cast<std::uint8_t>(bytes <= kSmallest ? 0 : std::bit_width((bytes - 1) / kSmallest));
    auto& free = free_[size_class];
    if (free.empty()) grow(size_class);
    const CorrectionBuffer buffer = free.back();
    free.pop_back();
    return buffer;
  }
  void give(const CorrectionBuffer& buffer) { free_[buffer.size_class].push_back(buffer); }

 private:
  static constexpr std::uint64_t kSmallest = 512;
  static constexpr std::uint64_t kSlabBytes = 512 * wire::kKiB;
  static constexpr std::uint64_t kMostPerSlab = 64;

  void grow(std::uint8_t size_class) {
    const std::uint64_t bytes = kSmallest << size_class;
    const std::size_t count = std::min(kMostPerSlab, kSlabBytes / bytes);
    PinnedBuffer slab = memory_.allocate(bytes * count);
    free_[size_class].reserve(free_[size_class].capacity() + count);
    for (std::size_t i = 0; i < count; ++i) {
      free_[size_class].push_back({slab.data() + i * bytes, slab.window_offset() + i * bytes, size_class});
    }
    slabs_.push_back(std::move(slab));
  }

  HostMemory& memory_;
  std::array<std::vector<CorrectionBuffer>, 7> free_;
  std::vector<PinnedBuffer> slabs_;
};
static_assert(CorrectionPool::kMost == 512u << 6 &&
              CorrectionPool::kMost >= wire::kBufferBlockBytes + wire::kMaxCorrectionBytes);

}  // namespace svp
