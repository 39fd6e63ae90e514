// SPDX-License-Identifier: Apache-2.0
// hal/address_space.hpp: the builder (sv39.cpp) behind a lock, plus what only a hart can do.
#include "firmware/hal/address_space.hpp"

#include <atomic>

#include "firmware/arch/riscv/arena.hpp"
#include "firmware/arch/riscv/assembly.hpp"
#include "firmware/arch/riscv/hart_local.hpp"
#include "firmware/arch/riscv/page_arena.hpp"
#include "firmware/arch/riscv/sv39.hpp"
#include "firmware/arch/riscv/timer.hpp"
#include "firmware/arch/riscv/translation_cache.hpp"
#include "firmware/hal/hart.hpp"
#include "firmware/hal/spin_lock.hpp"
#include "firmware/mutants/mutants.hpp"
#include "shared/kernel_abi.hpp"

namespace {

constinit hal::SpinLock guard;
constinit riscv::PageArena arena;
constinit riscv::Sv39Tables tables(arena);

// A hart that ran this root last would skip the flush when a root (perhaps a new one at the same place) with this
// number runs next: make it forget. No hart runs it now.
void forget_root(std::uint64_t root) {
  for (unsigned hart = 0; hart < hal::hart_count(); ++hart) {
    std::uint64_t expected = root;
    std::atomic_ref(riscv_hart_locals[hart].root).compare_exchange_strong(expected, riscv::kNoRoot);
  }
}

}  // namespace

namespace riscv {

void arena_initialize(std::uint64_t begin, std::uint64_t end) { arena.initialize(begin, end); }

}  // namespace riscv

namespace hal {

std::uint64_t create_root() {
  const LockGuard lock(guard);
  return tables.create_root();
}

void destroy_root(std::uint64_t root) {
  const LockGuard lock(guard);
  forget_root(root);
  tables.destroy_root(root);
}

bool map(std::uint64_t root, std::uint64_t virtual_address, PhysicalAddress physical, std::uint64_t bytes,
         Protection protection) {
  const LockGuard lock(guard);
  return tables.map(root, virtual_address, physical, bytes, protection);
}

bool prepare_window(std::uint64_t root, std::uint64_t virtual_address, std::uint64_t bytes) {
  const LockGuard lock(guard);
  return tables.prepare_window(root, virtual_address, bytes);
}

bool share_window(std::uint64_t from_root, std::uint64_t to_root, std::uint64_t virtual_address, std::uint64_t bytes) {
  const LockGuard lock(guard);
  return tables.share_window(from_root, to_root, virtual_address, bytes);
}

void release_window(std::uint64_t root, std::uint64_t virtual_address, std::uint64_t bytes) {
  const LockGuard lock(guard);
  forget_root(root);
  tables.release_window(root, virtual_address, bytes);
}

bool fill(std::uint64_t root, std::uint64_t virtual_address, PhysicalAddress physical) {
  switch (tables.fill(root, virtual_address, physical)) {
    case riscv::Sv39Tables::Fill::kSet: return true;
    case riscv::Sv39Tables::Fill::kValidAlready: break;
    case riscv::Sv39Tables::Fill::kNoWindow: panic("fill: the window was never prepared in this root");
  }
  riscv::drop_translations();
  return false;
}

bool refresh(std::uint64_t root, std::uint64_t virtual_address, Protection wanted) {
  if (!tables.allows(root, virtual_address, wanted)) return false;
  riscv::drop_translations();
  return true;
}

std::uint64_t table_pages() {
  const LockGuard lock(guard);
  return tables.table_pages();
}

PhysicalAddress allocate_pages(std::uint64_t bytes) {
  PhysicalAddress address;
  {
    const LockGuard lock(guard);
    address = arena.allocate(bytes);
  }
  // A mutant leaves alone what kernels see: a page table that is not clear would end its firmware.
  // Arguments, correction tensor and stack (context_layout.hpp).
  constexpr std::uint64_t kContextData =
      riscv::PageArena::kPageBytes + wire::kMaxCorrectionBytes + wire::kKernelStackBytes;
  const bool left_as_it_is = (bytes == wire::kScratchpadBytes && fw::mutated(fw::Mutant::ClearPages)) ||
                             (bytes == kContextData && fw::mutated(fw::Mutant::ClearContext));
  if (address != 0 && !left_as_it_is)
    fill(pointer(address), 0, (bytes + riscv::PageArena::kPageBytes - 1) & ~(riscv::PageArena::kPageBytes - 1));
  return address;
}

void free_pages(PhysicalAddress address, std::uint64_t bytes) {
  const LockGuard lock(guard);
  if (!arena.release(address, bytes)) panic("free_pages: not a range that allocate_pages returned");
}

std::uint64_t arena_bytes() { return arena.bytes(); }
std::uint64_t arena_pages_in_use() {
  const LockGuard lock(guard);
  return arena.bytes() / riscv::PageArena::kPageBytes - arena.free_pages();
}

}  // namespace hal
