// SPDX-License-Identifier: Apache-2.0
// What the parts of the dispatcher (dispatcher.hpp) need of each other: completions.cpp, intake.cpp, transfers.cpp,
// launch_steps.cpp, events.cpp. Hart 0 only.
#pragma once

#include <cstdint>

#include "firmware/core/dispatcher.hpp"
#include "firmware/core/fault_table.hpp"
#include "firmware/core/function.hpp"
#include "shared/control_block.hpp"
#include "shared/memory_order.hpp"

namespace fw {

class Card;

inline constexpr std::size_t kStickWords = wire::kStickBytes / 8;

// How a block ends.
struct Ending {
  wire::Outcome outcome;
  Verdict why;
  std::uint64_t end_time;
  wire::FaultRecord fault{};
  std::uint64_t slices = 0;
};

// Writes the completion and hands the chain back; the block is free afterwards.
void complete(Function& function, std::uint16_t block, const Ending& ending);
// Takes the head block off its stream and completes it. Any ending but OK poisons the stream. The head may be a block
// of a command buffer: then what ends is the call, or nothing, and the next block is the head.
void end_head(Function& function, unsigned stream, const Ending& ending);

// Tells the host that the block began, before its first side effect: after a death LOST and INDETERMINATE differ by it.
inline void publish_started(Function& function, const Block& block) {
  auto* started = function.at<std::uint64_t>(wire::kStartedSequences.offset);
  wire::store_release(started[block.cb.header.stream], block.cb.header.sequence);
  wire::store_fence();
}

inline Occurrence occurrence_of(const Function& function, const wire::ControlBlockHeader& header) {
  return {.function = function.id(),
          .stream = header.stream,
          .opcode = static_cast<std::uint32_t>(header.opcode),
          .sequence = header.sequence};
}

// One step of the DMA or FILL at the head of a stream.
[[gnu::noinline]] void step_transfer(Card& card, Function& function, unsigned stream);
// A COMPUTE at the head of the stream runs: the DMA behind it is moved now if it says that it may be (wire::kDmaAhead),
// and ends when it comes to the head. Not beside a COMPUTE on core 0 alone, whose hart moves the bytes. The other cores
// of one with more compute meanwhile; its part on core 0 waits for at most wire::kMaxCorrectionBytes.
[[gnu::noinline]] void move_ahead(Card& card, Function& function, const Stream& stream);
// Puts stalled streams back whose time is over, ends those whose budget is, and says when to look again.
// True when a block has ended.
[[gnu::cold, gnu::noinline]] bool wake_stalled(Function& function);

// Charges the function with the waits that were looked at for it.
inline void charge_looks(Function& function) {
  if (const std::uint32_t looks = function.streams.take_looks(); looks != 0) [[unlikely]]
    function.charge(looks * kBytesOfALook);
}
// The EVENT_SIGNAL, or the EVENT_WAIT, at the head of a stream.
[[gnu::noinline]] void step_event(Card& card, Function& function, unsigned stream);

// ---- command buffers (calls.cpp)

// The CALL or PREPARED at the head of a stream, which has not begun: judges the buffer again when regions have changed,
// a few blocks in a step, then begins with its first block. False: as step_block().
[[gnu::noinline]] bool step_call(Card& card, Function& function, unsigned stream);
// A step of the head, whatever it is. False: kernels have had their share of this iteration.
bool step_block(Card& card, Function& function, unsigned stream);
// The call goes on with the next block of its buffer.
void begin_next_of_call(Function& function, unsigned stream, Block& block);
// A block of a buffer has ended. True: the stream goes on with the next one. Else the call ends: `ending` is its own
// then.
bool call_goes_on(Function& function, unsigned stream, Ending& ending);
// The same for a kernel of a call that has exited with 0 at `end_time`, with what follows from it.
[[gnu::noinline]] void end_called_kernel(Function& function, unsigned stream, std::uint64_t end_time,
                                         std::uint64_t slices);
// The head ends, also a call none of whose blocks has begun.
void end_block(Function& function, unsigned stream, const Ending& ending);
// The largest value that the timeline gets by a call: 0: none, or there is no such buffer.
std::uint64_t last_signal_of_call(const Function& function, const wire::CallPayload& call);
// What a block names, as the region table is now: the same that its start finds out.
Verdict judge_addresses(Function& function, const wire::ControlBlock& cb);

// Starts the COMPUTE at the head of a stream, or finds out that it has to wait. False: it has run already, and kernels
// have had their share of this iteration.
[[gnu::noinline]] bool start_launch(Card& card, Function& function, unsigned stream);

}  // namespace fw
