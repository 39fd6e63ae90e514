// SPDX-License-Identifier: Apache-2.0
#include "tests/validation/campaign/test_stream.hpp"

#include "tests/validation/bounds.hpp"

namespace svp::campaign {

std::string ending(const std::optional<wire::Completion>& end) {
  if (!end) return "did not end";
  return std::string(wire::name(end->outcome)) + ", " + std::string(wire::name(end->status));
}

namespace {

std::uint64_t bytes_moved(const wire::ControlBlock& block) {
  switch (block.header.opcode) {
    case wire::Opcode::Dma: return block.payload.dma.bytes;
    case wire::Opcode::Fill: return block.payload.fill.bytes;
    default: return 0;
  }
}

}  // namespace

bool TestStream::submit(std::span<const wire::ControlBlock> blocks, bool verbatim) {
  const auto requests = requests_of(blocks);
  const std::size_t taken = verbatim ? submit_verbatim(requests)
                                     : test::RecordedStream::submit(std::span<const ControlBlockRequest>(requests));
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < taken && trace_.size() < kTracedBlocks; ++i) {
    trace_.push_back({.stream = stream(), .opcode = blocks[i].header.opcode, .bytes = bytes_moved(blocks[i])});
  }
  return taken == blocks.size();
}

std::optional<wire::Completion> TestStream::run(const wire::ControlBlock& block, std::chrono::nanoseconds bound) {
  if (!submit(block) || !wait_all(bound)) return std::nullopt;
  return endings().back();
}

// In order within a stream: the n-th completion is the n-th block's.
std::vector<TracedBlock> TestStream::trace() const {
  const auto ends = endings();
  const std::lock_guard lock(mutex_);
  std::vector<TracedBlock> blocks = trace_;
  for (std::size_t i = 0; i < std::min(blocks.size(), ends.size()); ++i) {
    blocks[i].ended = true;
    blocks[i].outcome = ends[i].outcome;
    blocks[i].status = ends[i].status;
    blocks[i].start_time = ends[i].start_time;
    blocks[i].end_time = ends[i].end_time;
  }
  return blocks;
}

void load_image(const BlockBuilder& builder, TestStream& stream, std::uint64_t offset,
                std::span<const std::byte> image) {
  const auto ended = stream.run(builder.loading(offset, image), campaign_bounds::kLoad);
  if (ended && ended->outcome == wire::Outcome::Ok) return;
  throw Error({.layer = Layer::Driver,
               .source = "a kernel's image",
               .outcome = ended ? ended->outcome : wire::Outcome::Timeout,
               .recoverable = false,
               .next_step = "start the scenario on a new card",
               .message = "a kernel's image could not be loaded"});
}

}  // namespace svp::campaign
