// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/workbench.hpp"

#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "shared/memory_order.hpp"

namespace svp::test {

std::uint64_t started_sequence(const Device& device, std::uint32_t stream) {
  const auto* started = reinterpret_cast<const std::uint64_t*>(window_of(device) + wire::kStartedSequences.offset);
  return wire::load_acquire(started[stream]);
}

Workbench::Workbench(Device& device)
    : device_(device),
      tensor_(must(device.acquire_region(RegionType::Tensor, kRegionBytes))),
      program_(must(device.acquire_region(RegionType::Program, kRegionBytes))) {}

wire::Endpoint Workbench::host(std::uint64_t offset) const {
  return {0, device_.host_memory_offset() + offset, 0, wire::EndpointKind::HostMemory, {}};
}

wire::ControlBlock Workbench::dma(const wire::Endpoint& from, const wire::Endpoint& to, std::uint64_t bytes) {
  wire::ControlBlock block{};
  block.header.opcode = wire::Opcode::Dma;
  block.payload.dma = {from, to, bytes, 0, 0};
  return block;
}

wire::ControlBlock Workbench::fill(const wire::Endpoint& at, std::uint64_t bytes, std::uint64_t pattern) {
  wire::ControlBlock block{};
  block.header.opcode = wire::Opcode::Fill;
  block.payload.fill = {at, bytes, pattern, {}};
  return block;
}

wire::ControlBlock Workbench::compute(std::uint64_t image_offset, std::uint64_t image_bytes, std::uint64_t core_mask,
                                      std::uint64_t budget) const {
  wire::ControlBlock block{};
  block.header.opcode = wire::Opcode::Compute;
  block.header.budget = budget;
  block.payload.compute.image = program(image_offset);
  block.payload.compute.image_bytes = image_bytes;
  block.payload.compute.core_mask = core_mask;
  return block;
}

wire::Completion Workbench::run(const wire::ControlBlock& block, std::uint32_t stream) const {
  Endings recorder;
  const ControlBlockRequest request{&block, &recorder};
  if (must(device_.submit(stream, {&request, 1})) != 1) throw std::runtime_error("the stream took no block");
  const auto status = device_.wait_until([&] { return recorder.count() == 1; }, soon());
  if (status == WaitStatus::TimedOut) std::abort();  // the card would call a recorder that is gone
  return recorder.all().front();
}

void Workbench::load(std::uint64_t offset, std::span<const std::byte> image) const {
  const std::uint64_t at = device_.host_memory().size() - wire::align_up(image.size(), wire::kStickBytes);
  std::memcpy(device_.host_memory().data() + at, image.data(), image.size());
  const auto end = run(dma(host(at), program(offset), image.size()));
  if (end.outcome != wire::Outcome::Ok) throw std::runtime_error("the image was not loaded");
}

}  // namespace svp::test
