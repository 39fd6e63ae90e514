// SPDX-License-Identifier: Apache-2.0
#include "host_driver/runtime/prepared_launches.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "host_driver/runtime/current_function.hpp"

namespace svp {
namespace {

ErrorInfo refused(std::string message, std::string next_step, wire::Status status = wire::Status::None) {
  return {.layer = Layer::Driver,
          .source = "prepared launches",
          .outcome = wire::Outcome::Rejected,
          .recoverable = true,
          .next_step = std::move(next_step),
          .message = std::move(message),
          .status = status};
}

std::string what_was_refused(const wire::AdminReply& reply) {
  std::string text = "the card refused a command buffer: " + std::string(wire::name(reply.status));
  if (reply.field != wire::Field::None) text += " in " + std::string(wire::name(reply.field));
  if (reply.status != wire::Status::OutOfCommandBuffers) {
    text += " of block " + std::to_string(reply.values.buffer.block);
  }
  return text;
}

}  // namespace

CardBuffer::CardBuffer(const std::shared_ptr<Device>& device, HostMemory& memory,
                       const std::vector<PreparedBlock*>& blocks)
    : device_(device),
      blocks_(blocks.size()),
      one_compute_(blocks.size() == 1 && blocks[0]->block.header.opcode == wire::Opcode::Compute) {
  std::uint64_t data_bytes = 0;
  for (const PreparedBlock* block : blocks) data_bytes += block->tensor.size();
  const std::uint64_t block_bytes = blocks.size() * wire::kBufferBlockBytes;
  const PinnedBuffer source = memory.allocate(block_bytes + data_bytes);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const PreparedBlock& block = *blocks[i];
    std::memcpy(source.data() + i * wire::kBufferBlockBytes, &block.block, wire::kBufferBlockBytes);
    if (block.tensor.empty()) continue;
    std::memcpy(source.data() + block_bytes + block.data_offset, block.tensor.data(), block.tensor.size());
  }
  wire::AdminRequest request{};
  request.command = wire::AdminCommand::BufferCreate;
  request.arguments.buffer_create = {source.window_offset(), static_cast<std::uint32_t>(blocks.size()),
                                     static_cast<std::uint32_t>(data_bytes)};
  const auto reply = device->admin(request);
  if (!reply) throw Error(reply.error());
  if (reply->outcome != wire::Outcome::Ok) {
    const bool full = reply->status == wire::Status::OutOfCommandBuffers;
    throw Error(refused(what_was_refused(*reply),
                        full ? "let go of prepared launches that are not needed" : "correct the request",
                        reply->status));
  }
  id_ = reply->values.buffer.buffer;
  epoch_ = reply->values.buffer.epoch;
}

// What the card does not take back now goes with the function's reset.
CardBuffer::~CardBuffer() {
  const auto device = device_.lock();
  if (device == nullptr) return;
  wire::AdminRequest request{};
  request.command = wire::AdminCommand::BufferDestroy;
  request.arguments.buffer_destroy = {id_, 0, epoch_};
  (void)device->admin(request);
}

const PreparedBlock* PreparedLaunches::State::find(std::size_t buffer, std::uint32_t index) const {
  const auto found = std::ranges::find_if(
      blocks, [&](const PreparedBlock& block) { return block.buffer == buffer && block.index == index; });
  return found != blocks.end() ? &*found : nullptr;
}

PreparedLaunches::PreparedLaunches(const std::shared_ptr<Device>& device, const CurrentFunction& function,
                                   std::shared_ptr<State> state)
    : launches_(state->held.size()),
      device_(device),
      device_address_(device.get()),
      function_(&function),
      state_(std::move(state)) {
  for (const ReplayStep& step : *state_->steps) {
    if (std::holds_alternative<RecordStep>(step)) ++events_;
    const auto* const wait = std::get_if<WaitStep>(&step);
    if (wait != nullptr && std::holds_alternative<WaitSlot>(wait->awaited)) ++slots_;
  }
}

bool PreparedLaunches::is_device_program(std::size_t launch) const {
  const std::lock_guard guard(mutex_);
  return launch < launches_ && state_->held[launch]->job.device_program() != nullptr;
}

std::size_t PreparedLaunches::blocks() const {
  const std::lock_guard guard(mutex_);
  return state_->blocks.size();
}

std::shared_ptr<PreparedLaunches::State> PreparedLaunches::current(const CurrentFunction& function) const {
  if (&function != function_) {
    throw InvalidArgument("prepared", "it was prepared in another context", "prepare it in this one");
  }
  if (function.device().get() != device_address_ || device_.lock() == nullptr) {
    throw Error(refused("the prepared launches have ended with a reset of the function",
                        "load plans and allocate tensors again, then prepare the launches again",
                        wire::Status::StaleCommandBuffer));
  }
  std::shared_ptr<const State> done;  // let go of without the lock
  const std::lock_guard guard(mutex_);
  switch (state_->patch.load(std::memory_order_acquire)) {
    case State::Patch::UnderWay: break;
    case State::Patch::Done: done = std::move(state_->before); break;
    case State::Patch::Failed:
      throw Error(refused("a patch of the prepared launches failed", "prepare them again", wire::Status::EventFailed));
  }
  return state_;
}

}  // namespace svp
