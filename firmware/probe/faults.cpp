// SPDX-License-Identifier: Apache-2.0
// Strays are precise, first touches are retried, calls are understood, and a kernel sees and keeps nothing.
#include <array>

#include "firmware/hal/address_space.hpp"
#include "firmware/hal/hart.hpp"
#include "firmware/probe/probe.hpp"
#include "shared/kernel_abi.hpp"

namespace probe {

namespace {

using hal::Access;
using hal::StopReason;

hal::Context context;

struct Stray {
  const std::byte* kernel;
  std::uint64_t address;
  std::uint64_t pc_offset;  // of the faulting instruction in the kernel; ~0: the address itself
  wire::Status status;
  Access access;
};

void expect_stray(Proof& proof, const Space& space, const Stray& stray) {
  space.start(context, stray.kernel, stray.address);
  const hal::Stop stop = run_through(context);
  const auto entry = wire::kContextWindow + static_cast<std::uint64_t>(stray.kernel - probe_kernels_begin);
  proof.expect_equal(static_cast<std::uint64_t>(stop.reason), static_cast<std::uint64_t>(StopReason::Fault),
                     "the reason");
  proof.expect_equal(static_cast<std::uint64_t>(stop.status), static_cast<std::uint64_t>(stray.status), "the status");
  proof.expect_equal(static_cast<std::uint64_t>(stop.access), static_cast<std::uint64_t>(stray.access), "the access");
  proof.expect_equal(stop.address, stray.address, "the address");
  proof.expect_equal(stop.pc, stray.pc_offset == ~std::uint64_t{0} ? stray.address : entry + stray.pc_offset, "the pc");
  hal::drop(context);
}

void strays_are_precise(const Space& space) {
  Proof proof("a stray load, store or jump is reported with address, pc and access");
  constexpr std::uint64_t kFirmware = 0x8000'0000;
  const std::uint64_t text = wire::kContextWindow;
  constexpr auto kSelf = ~std::uint64_t{0};
  const std::array strays = {
      Stray{probe_kernel_load, 0x0, 0, wire::Status::LoadFault, Access::Load},
      Stray{probe_kernel_load, kFirmware, 0, wire::Status::LoadFault, Access::Load},
      Stray{probe_kernel_load, wire::region_window(0) + 0x1238, 0, wire::Status::LoadFault, Access::Load},
      Stray{probe_kernel_load, wire::region_window(7) + (12 * wire::kGiB) - 8, 0, wire::Status::LoadFault,
            Access::Load},
      Stray{probe_kernel_load, 0xffff'ffff'ffff'fff8, 0, wire::Status::LoadFault, Access::Load},
      Stray{probe_kernel_store, wire::region_window(3) + 0x10, 0, wire::Status::StoreFault, Access::Store},
      Stray{probe_kernel_store, kFirmware + 0x100, 0, wire::Status::StoreFault, Access::Store},
      Stray{probe_kernel_store, text + 0x40, 0, wire::Status::StoreFault, Access::Store},
      Stray{probe_kernel_store, 0x1000'0000, 0, wire::Status::StoreFault, Access::Store},
      Stray{probe_kernel_jump, wire::region_window(2) + 0x20, kSelf, wire::Status::FetchFault, Access::Fetch},
      Stray{probe_kernel_jump, 0, kSelf, wire::Status::FetchFault, Access::Fetch},
      Stray{probe_kernel_jump, kFirmware, kSelf, wire::Status::FetchFault, Access::Fetch},
      Stray{probe_kernel_jump, space.data_address(), kSelf, wire::Status::FetchFault, Access::Fetch},
  };
  for (const Stray& stray : strays) expect_stray(proof, space, stray);
}

void privileged_instructions_fault(const Space& space) {
  Proof proof("counters, control registers and fences are illegal in a kernel");
  for (const std::byte* kernel : {probe_kernel_read_time, probe_kernel_write_status, probe_kernel_misuse_fence}) {
    space.start(context, kernel, 0);
    const hal::Stop stop = run_through(context);
    proof.expect(stop.reason == StopReason::Fault && stop.status == wire::Status::IllegalInstruction, "illegal");
    hal::drop(context);
  }
  space.start(context, probe_kernel_break, 0);
  const hal::Stop stop = run_through(context);
  proof.expect(stop.reason == StopReason::Fault && stop.status == wire::Status::Breakpoint, "breakpoint");
  hal::drop(context);
}

void waiting_does_not_escape(const Space& space) {
  Proof proof("a kernel that waits for interrupts is still ended by its slice");
  space.start(context, probe_kernel_wait_for_interrupt, 0);
  const hal::Stop stop = hal::run(context, 20'000);
  proof.expect(stop.reason == StopReason::Timer || stop.reason == StopReason::Fault, "timer, or illegal");
  hal::drop(context);
}

void calls_are_told_apart(const Space& space) {
  Proof proof("environment calls are told apart and go on behind the call");
  space.start(context, probe_kernel_calls, 0);
  hal::Stop stop = run_through(context);
  proof.expect(stop.reason == StopReason::TraceMark && stop.argument == 77, "the mark");
  stop = run_through(context);
  proof.expect(stop.reason == StopReason::Claim && stop.argument == 9, "the claim");
  hal::answer(context, 1234);
  stop = run_through(context);
  proof.expect(stop.reason == StopReason::Barrier, "the barrier");
  stop = run_through(context);
  proof.expect(stop.reason == StopReason::BadCall && stop.argument == 1234,
               "the unknown call, whose number is the answer");
  hal::drop(context);

  space.start(context, probe_kernel_exit, 0x1234'5678'9abc'def0);
  stop = run_through(context);
  proof.expect(stop.reason == StopReason::Exit, "the exit");
  proof.expect_equal(stop.argument, 0x1234'5678'9abc'def0, "its status");
}

void fresh_after_dirty(const Space& space) {
  Proof proof("a fresh kernel finds every register zero after one that left none so");
  std::uint64_t* block = space.data();
  for (int round = 0; round < 3; ++round) {
    space.start(context, probe_kernel_dirty, 0);
    proof.expect(run_through(context).reason == StopReason::Exit, "dirty");
    for (std::uint64_t i = 0; i < 640; ++i) block[i] = 0x5555;
    space.start(context, probe_kernel_dump, space.data_address());
    proof.expect(run_through(context).reason == StopReason::Exit, "dumped");
    for (std::uint64_t n = 1; n < 640; ++n) {
      const bool unused = n > 68 && n < 128;
      if (n == 2 || n == 10 || unused) continue;
      if (!proof.expect_equal(block[n], 0, "a word of the register dump")) break;
    }
    proof.expect_equal(block[10], space.data_address(), "a0");
    proof.expect_equal(block[2], wire::kContextWindow + wire::kStackOffset + kStackBytes, "sp");
  }
}

// ---- windows --------------------------------------------------------------------------------------------------------

constexpr std::uint64_t kWindowBytes = 12 * wire::kGiB;

// Serves first touches as core/ does: the granule of the region behind the window. Counts them.
hal::Stop run_filling(const Space& space, std::uint64_t window, hal::PhysicalAddress region, std::uint64_t& touches) {
  for (touches = 0;; ++touches) {  // bounded: each iteration fills one granule of a window of 12 GiB
    const hal::Stop stop = run_through(context);
    if (stop.reason != StopReason::Fault || stop.address < window || stop.address - window >= kWindowBytes) return stop;
    (void)hal::fill(space.root(), stop.address, region + (stop.address - window));
  }
}

void first_touch_fills(const Space& space) {
  Proof proof("windows at (r + 1) << 34 reach memory above 4 GiB, filled at first touch, without a flush");
  const hal::MemoryRange memory = hal::region_memory();
  const std::uint64_t regions = (memory.end - memory.begin) / kWindowBytes;
  if (regions == 0) return proof.skip("less than 12 GiB of region memory");
  for (std::uint64_t r = 0; r < regions && r < wire::kRegionsPerFunction; ++r) {
    const std::uint64_t window = wire::region_window(static_cast<unsigned>(r));
    const hal::PhysicalAddress region = memory.begin + r * kWindowBytes;
    if (!proof.expect(hal::prepare_window(space.root(), window, kWindowBytes), "the window is prepared")) return;
    // Eight words, 16 KiB apart, across the edge of two granules, somewhere in the window and at its end.
    constexpr std::uint64_t kStep = 16 * 1024, kCount = 8;
    for (const std::uint64_t offset : {wire::kGranuleBytes - 4 * kStep, kWindowBytes - kCount * kStep}) {
      space.data()[0] = window + offset;
      space.data()[1] = kStep;
      space.data()[2] = kCount;
      space.start(context, probe_kernel_touch, space.data_address());
      std::uint64_t touches = 0;
      const hal::Stop stop = run_filling(space, window, region, touches);
      proof.expect(stop.reason == StopReason::Exit, "the kernel ends");
      proof.expect_equal(stop.argument, 0, "the number of wrong words");
      proof.expect_equal(touches, offset < wire::kGranuleBytes ? 2 : 1, "the number of first touches");
      const auto* word = reinterpret_cast<const std::uint64_t*>(hal::pointer(region + offset));
      proof.expect_equal(*word, window + offset, "the word in card memory");
    }
  }
  // The window ends where it ends.
  space.start(context, probe_kernel_load, wire::region_window(0) + kWindowBytes);
  proof.expect(run_through(context).reason == StopReason::Fault, "behind the window is nothing");
  hal::drop(context);
}

void vector_access_is_retried(const Space& space) {
  Proof proof("a vector access across the edge of an unfilled granule is retried where it stopped");
  const hal::MemoryRange memory = hal::region_memory();
  const std::uint64_t window = wire::region_window(0);
  constexpr std::uint64_t kBegin = 3 * wire::kGranuleBytes - 8 * 1024 + 100, kBytes = 16 * 1024;
  space.data()[0] = window + kBegin;
  space.data()[1] = kBytes;
  space.start(context, probe_kernel_vector_touch, space.data_address());
  std::uint64_t touches = 0;
  const hal::Stop stop = run_filling(space, window, memory.begin, touches);
  proof.expect(stop.reason == StopReason::Exit, "the kernel ends");
  proof.expect_equal(touches, 2, "the number of first touches");
  const std::byte* bytes = hal::pointer(memory.begin + kBegin);
  for (std::uint64_t i = 0; i < kBytes; ++i) {
    if (!proof.expect_equal(std::to_integer<std::uint64_t>(bytes[i]), 7, "a byte")) return;
  }
}

void filled_already(const Space& space) {
  Proof proof("filling what is filled says so and changes nothing");
  const hal::MemoryRange memory = hal::region_memory();
  proof.expect(!hal::fill(space.root(), wire::region_window(0) + 3 * wire::kGranuleBytes, memory.begin), "says so");
  space.start(context, probe_kernel_load, wire::region_window(0) + 3 * wire::kGranuleBytes);
  const hal::Stop stop = run_through(context);
  proof.expect(stop.reason == StopReason::Exit, "still mapped");
  proof.expect_equal(stop.argument, 0x0707'0707'0707'0707, "to the same memory");
}

void shared_windows(const Space& space) {
  Proof proof("a shared window is the same in all roots, and no table page is lost");
  const std::uint64_t window = wire::region_window(0);
  const std::uint64_t before = hal::table_pages();
  {
    const Space second;
    proof.expect(hal::share_window(space.root(), second.root(), window, kWindowBytes), "shared");
    second.start(context, probe_kernel_load, window + 3 * wire::kGranuleBytes);
    const hal::Stop stop = run_through(context);
    proof.expect(stop.reason == StopReason::Exit && stop.argument == 0x0707'0707'0707'0707, "what the other filled");
  }
  proof.expect_equal(hal::table_pages(), before, "the number of table pages");
  // A new root, perhaps at the place of the old one, does not inherit its translations.
  const Space third;
  third.start(context, probe_kernel_load, window + 3 * wire::kGranuleBytes);
  proof.expect(run_through(context).reason == StopReason::Fault, "nothing is inherited");
  hal::drop(context);
}

}  // namespace

void prove_faults() {
  const Space space;
  strays_are_precise(space);
  privileged_instructions_fault(space);
  waiting_does_not_escape(space);
  calls_are_told_apart(space);
  fresh_after_dirty(space);
}

void prove_address_spaces() {
  const std::uint64_t before = hal::table_pages();
  {
    const Space space;
    first_touch_fills(space);
    if (hal::region_memory().end - hal::region_memory().begin >= kWindowBytes) {
      vector_access_is_retried(space);
      filled_already(space);
      shared_windows(space);
    }
    for (unsigned r = 0; r < wire::kRegionsPerFunction; ++r) {
      hal::release_window(space.root(), wire::region_window(r), kWindowBytes);
    }
  }
  Proof proof("address spaces that are gone leave no table page");
  proof.expect_equal(hal::table_pages(), before, "the number of table pages");
}

}  // namespace probe
