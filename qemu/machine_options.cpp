// SPDX-License-Identifier: Apache-2.0
#include "qemu/machine_options.hpp"

#include <fmt/format.h>

#include <bit>

#include "qemu/errors.hpp"

namespace qemu {

namespace {

constexpr std::uint64_t kMinimumWindow = 4096;
constexpr std::uint64_t kMaximumWindow = 16 * kGiB;  // the whole 64-bit PCI window of -M virt

std::unexpected<MachineError> invalid(std::string message, std::string next_step) {
  return failure(MachineError::Kind::kInvalidOption, std::move(message), std::move(next_step));
}

}  // namespace

Result<void> validate(const MachineOptions& options) {
  if (options.harts < 1 || options.harts > kMaxHarts) {
    return invalid(fmt::format("harts = {} is not in 1…{}.", options.harts, kMaxHarts),
                   "Choose another number of harts.");
  }
  if (options.memory_bytes == 0 || options.memory_bytes % kMiB != 0) {
    return invalid(fmt::format("memory_bytes = {} is not a positive multiple of 1 MiB.", options.memory_bytes),
                   "Round the memory size to whole MiB.");
  }
  if (options.translation_buffer_mib == 0) {
    return invalid("translation_buffer_mib is 0.", "Use at least 1 (MiB); 64 is the default.");
  }
  if (const std::uint64_t wanted = options.slots.size() + std::uint64_t{options.ports};
      wanted > kMaxSlots || options.ports > kMaxPorts) {
    return invalid(fmt::format("{} slots were asked for, one card has PCI addresses for {}.", wanted, kMaxSlots),
                   "Use fewer slots or a second card.");
  }
  if (options.first_renewed_peer <= kCardPeer) {
    return invalid(fmt::format("first_renewed_peer = {} is the id of a peer that exists.", options.first_renewed_peer),
                   "Use at least 2.");
  }
  for (std::size_t i = 0; i < options.slots.size(); ++i) {
    const std::uint64_t bytes = options.slots[i].window_bytes;
    if (!std::has_single_bit(bytes) || bytes < kMinimumWindow || bytes > kMaximumWindow) {
      return invalid(fmt::format("slot {}: window of {} bytes is not a power of two in {}…{}.", i, bytes,
                                 kMinimumWindow, kMaximumWindow),
                     "Choose a power of two, e.g. 268435456.");
    }
  }
  return {};
}

}  // namespace qemu
