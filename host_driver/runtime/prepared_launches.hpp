// SPDX-License-Identifier: Apache-2.0
// Launches that the card keeps: their control blocks and correction tensors lie in command buffers of the card
// (protocol §5), checked when they are prepared. Launching them again is one block of a stick for each buffer; the host
// writes no block, runs no HostOperation and moves no correction tensor.
//
// Events and functions of the host stand between buffers, not in them: a replay is made of launches, each with its own
// number, as if the program had launched, recorded and waited itself. So an event ends, a failure poisons and a
// recovery sends again by the same rules, and the driver sends a wait of another stream behind its signal.
//
// FlexStream::Prepare() makes them, Launch() runs them on any stream of the same context, Patch() gives one of them
// other operands. They hold what they work on (operands, programs) until they are gone and everything launched of them
// has ended. A reset of a stream or of the queues does not touch them; a function reset and everything above ends them.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <variant>
#include <vector>

#include "host_driver/device/device.hpp"
#include "host_driver/memory/flex_allocator.hpp"
#include "host_driver/runtime/captured_steps.hpp"
#include "host_driver/runtime/job.hpp"
#include "host_driver/runtime/launch_observer.hpp"
#include "host_driver/runtime/operand_table.hpp"
#include "host_driver/runtime/stream_error.hpp"
#include "shared/command_buffer.hpp"

namespace svp {

class CurrentFunction;
class HostMemory;
struct HostCall;
struct Unit;

// A block of a command buffer as the host wrote it, with the tensor that goes behind it.
struct PreparedBlock {
  wire::ControlBlock block{};
  std::vector<std::byte> tensor{};  // whole sticks
  SegmentWindows windows{};
  std::uint32_t tile = 0;
  std::uint32_t step = 0;         // in the job's plan
  std::size_t request = 0;        // which of the launches
  std::uint32_t buffer = 0;       // where it stands
  std::uint32_t index = 0;        // likewise, in that buffer
  std::uint64_t data_offset = 0;  // of the tensor in the buffer's data
};

// One command buffer of the card; destroyed there with this object, unless the function was reset.
class CardBuffer {
 public:
  // Throws Error: the card refused, or did not answer.
  CardBuffer(const std::shared_ptr<Device>& device, HostMemory& memory, const std::vector<PreparedBlock*>& blocks);
  ~CardBuffer();
  CardBuffer(const CardBuffer&) = delete;
  CardBuffer& operator=(const CardBuffer&) = delete;

  std::uint32_t id() const { return id_; }
  std::uint64_t epoch() const { return epoch_; }
  // PREPARED runs it, else CALL.
  bool is_one_compute() const { return one_compute_; }
  std::size_t blocks() const { return blocks_; }

 private:
  const std::weak_ptr<Device> device_;
  std::uint32_t id_ = 0;
  std::uint64_t epoch_ = 0;
  std::size_t blocks_;
  bool one_compute_;
};

// `count` buffers from `first` on, which are called together.
struct CallsStep {
  std::size_t first = 0;
  std::size_t count = 0;
  bool barrier = false;  // LaunchOptions::pipeline_barrier of the first launch in them
};
using ReplayStep = std::variant<CallsStep, RecordStep, WaitStep, HostStep>;

// A step of one replay, which becomes a launch: with the event that it records, what it waits for now, the call.
struct SignalPiece {
  std::shared_ptr<Event> event;
};
using ReplayPiece = std::variant<CallsStep, SignalPiece, AwaitedPlace, std::shared_ptr<HostCall>>;

class PreparedLaunches {
 public:
  // How many launches were prepared together.
  std::size_t size() const { return launches_; }
  // How many events each replay records, and for how many it has to be told what to wait for.
  std::size_t events() const { return events_; }
  std::size_t slots() const { return slots_; }
  // Launch number `launch`, if there is one, is of a device program.
  bool is_device_program(std::size_t launch) const;
  // Control blocks on the card.
  std::size_t blocks() const;

 private:
  friend class FlexStream;
  friend class PreparedWriter;
  friend class StreamChannel;
  friend struct Unit;

  // What the blocks of one launch work on.
  struct Held {
    Job job;
    AllocationUses uses{};
    SharedOperandTable operands{};
    std::shared_ptr<const void> keep_alive{};
    bool allow_tiled_launch = true;
    std::uint64_t core_mask = 0;
    std::uint64_t budget_slices = 0;
  };
  // As it is between two patches. Launches keep the one that they were launched with.
  struct State final : LaunchObserver {
    void on_block(const BlockRecord&) noexcept override {}
    void on_launch_ended(std::uint64_t, wire::Outcome ended) noexcept override {
      patch.store(ended == wire::Outcome::Ok ? Patch::Done : Patch::Failed, std::memory_order_release);
    }
    // Block `index` of buffer `buffer`; nullptr: the card names one that there is not.
    const PreparedBlock* find(std::size_t buffer, std::uint32_t index) const;
    // Nothing stands between its buffers.
    bool is_one_call() const { return steps->size() == 1 && std::holds_alternative<CallsStep>(steps->front()); }

    std::vector<std::shared_ptr<const Held>> held;
    std::vector<PreparedBlock> blocks;
    std::shared_ptr<const std::vector<std::unique_ptr<CardBuffer>>> buffers;
    std::shared_ptr<const std::vector<ReplayStep>> steps;
    unsigned slices = 0;  // of scratchpads that the launches use
    // What has to end before the first launch: it had memory that they were given.
    std::vector<AwaitedUse> awaited{};
    // Of the patch that this state is the result of. Until it is done the card works with the state before it.
    enum class Patch : std::uint8_t { Done, UnderWay, Failed };
    std::atomic<Patch> patch{Patch::Done};
    std::shared_ptr<const State> before{};
  };

  PreparedLaunches(const std::shared_ptr<Device>& device, const CurrentFunction& function,
                   std::shared_ptr<State> state);
  // Throws Error when the function was reset since, or a patch failed; InvalidArgument on another context.
  std::shared_ptr<State> current(const CurrentFunction& function) const;

  const std::size_t launches_;
  std::size_t events_ = 0;
  std::size_t slots_ = 0;
  const std::weak_ptr<Device> device_;  // on which it was prepared
  const Device* const device_address_;
  const CurrentFunction* const function_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<State> state_;
};

}  // namespace svp
