// SPDX-License-Identifier: Apache-2.0
// Pinned memory.
#include "host_driver/api/inside.hpp"

namespace spyre::inline v0 {

PinnedMemory::PinnedMemory() = default;
PinnedMemory::PinnedMemory(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
PinnedMemory::PinnedMemory(PinnedMemory&& other) noexcept = default;
PinnedMemory& PinnedMemory::operator=(PinnedMemory&& other) noexcept = default;
PinnedMemory::~PinnedMemory() = default;

std::span<std::byte> PinnedMemory::bytes() const {
  return impl_ == nullptr ? std::span<std::byte>() : impl_->buffer.bytes();
}

HostMemory::HostMemory(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HostMemory::~HostMemory() = default;

PinnedMemory HostMemory::allocate(std::size_t bytes) {
  return Inside::pinned(impl_->runtime.host_memory().allocate(bytes));
}

void HostMemory::register_memory(void* memory, std::size_t bytes) {
  impl_->runtime.host_memory().register_memory({static_cast<std::byte*>(memory), bytes});
}

void HostMemory::unregister_memory(void* memory) { impl_->runtime.host_memory().unregister_memory(memory); }

bool HostMemory::is_pinned(const void* memory, std::size_t bytes) const {
  return impl_->runtime.host_memory().is_pinned({static_cast<const std::byte*>(memory), bytes});
}

HostMemoryStatistics HostMemory::statistics() const {
  const svp::HostMemory::Statistics memory = impl_->runtime.host_memory().statistics();
  const svp::TransferCounters::Snapshot transfers = impl_->runtime.transfer_counters().snapshot();
  return {.total_bytes = memory.total_bytes,
          .used_bytes = memory.used_bytes,
          .peak_bytes = memory.peak_bytes,
          .largest_free = memory.largest_free,
          .registered_bytes = memory.registered_bytes,
          .registrations = memory.registrations,
          .direct_bytes = transfers.direct_bytes,
          .staged_bytes = transfers.staged_bytes,
          .copied_bytes = transfers.copied_bytes};
}

}  // namespace spyre::inline v0
