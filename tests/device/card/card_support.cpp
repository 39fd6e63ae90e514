// SPDX-License-Identifier: Apache-2.0
#include "tests/device/card/card_support.hpp"

#include <cstring>
#include <fstream>
#include <iterator>

#include "shared/memory_order.hpp"

namespace flex::test {

CardOptions small_card(std::string boot_arguments) {
  CardOptions options;
  options.cores = 2;
  options.boot_arguments = std::move(boot_arguments);
  return options;
}

void expect_healthy(Card& card, Device& device) {
  EXPECT_TRUE(card.machine().alive());
  EXPECT_EQ(card.machine().console().find("PANIC"), std::string::npos) << card.machine().console();
  EXPECT_EQ(device.health(), Health::Alive);
  EXPECT_FALSE(device.failure());
  EXPECT_TRUE(device.card_statistics());
}

std::vector<std::byte> kernel_image(const std::filesystem::path& firmware, std::string_view name) {
  const auto path = firmware.parent_path() / "kernels" / (std::string(name) + ".img");
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (bytes.empty()) throw std::runtime_error("no kernel image " + path.string());
  std::vector<std::byte> image(bytes.size());
  std::memcpy(image.data(), bytes.data(), bytes.size());
  return image;
}

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

}  // namespace flex::test
