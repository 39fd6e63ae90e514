// SPDX-License-Identifier: Apache-2.0
// The conformance probe of firmware/arch and firmware/platform: a firmware of its own that uses hal/ as core/ does and
// checks what hal/ promises on the real (emulated) hardware. Output, one line each:
//   PASS name | FAIL name: what | SKIP name: why | FIGURE name value unit
// and a last line "probe: … passed, … failed". Exit code 0 when nothing failed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

#include "firmware/hal/context.hpp"
#include "firmware/hal/memory.hpp"
#include "shared/units.hpp"

namespace probe {

// A proof ends at its first failed expectation.
class Proof {
 public:
  explicit Proof(const char* name) : name_(name) {}
  ~Proof();
  Proof(const Proof&) = delete;
  Proof& operator=(const Proof&) = delete;

  // Remembers the first failure; returns `condition`.
  bool expect(bool condition, const char* what);
  bool expect_equal(std::uint64_t found, std::uint64_t wanted, const char* what);
  void skip(const char* why) { skipped_ = why; }

 private:
  const char* name_;
  const char* failed_ = nullptr;
  const char* skipped_ = nullptr;
  std::uint64_t found_ = 0;
  std::uint64_t wanted_ = 0;
  bool compared_ = false;
};

void figure(const char* name, std::uint64_t value, const char* unit);
unsigned failures();
unsigned passes();
// Writes the last line and ends the emulator.
[[noreturn]] void finish();

// ---- a launch, as core/ will make it --------------------------------------------------------------------------------

inline constexpr std::uint64_t kStackBytes = 64 * 1024;
inline constexpr std::uint64_t kDataBytes = 64 * 1024;

// An address space with the probe's kernels at wire::kContextWindow, a stack, and a page-aligned read-write block.
class Space {
 public:
  Space();
  ~Space();
  Space(const Space&) = delete;
  Space& operator=(const Space&) = delete;

  [[nodiscard]] std::uint64_t root() const { return root_; }
  // Read-write memory shared with the kernel: where the kernel sees it, and the same bytes for the firmware.
  [[nodiscard]] std::uint64_t data_address(std::uint64_t offset = 0) const;
  [[nodiscard]] std::uint64_t* data(std::uint64_t offset = 0) const;
  void start(hal::Context& context, const std::byte* kernel, std::uint64_t argument) const;

 private:
  std::uint64_t root_;
  hal::PhysicalAddress text_;
  hal::PhysicalAddress stack_;
  hal::PhysicalAddress data_;
};

// Runs to the first stop that is neither Timer nor Interrupted.
hal::Stop run_through(hal::Context& context, std::uint64_t slice = wire::kTicksPerSecond / 1000);

// Deterministic bytes.
void scramble(std::span<std::byte> bytes, std::uint64_t seed);
bool scrambled(std::span<const std::byte> bytes, std::uint64_t seed);

// ---- what hart 1 does on request (helper.cpp); false when there is no such hart -------------------------------------
bool helper_present();
// Wakes hart 0 every `ticks` until stopped.
void helper_ring(std::uint64_t ticks);
// Runs the context to its end on hart 1 and waits for it (bounded); true when it exited.
bool helper_run(hal::Context& context, hal::Stop& stop);
void helper_stop();
// Hart 1 traps in firmware code.
void helper_break();
// Hart 1 is in an endless loop of firmware code when this returns.
void helper_hang();
// Hart 1 runs the context; nobody waits for it.
void helper_run_on(hal::Context& context);
// Hart 1 waits until hart 0 says that it moves data, then reports it as stuck.
void helper_accuse();
// It waits for a lock that the caller then holds, for ever. It marks Dma before.
void helper_lock();

void prove_contexts();
void prove_faults();
void prove_address_spaces();
void prove_suspension();
void prove_sleep();
void prove_memory();
// Modes of their own, chosen by the boot argument proof=…; none of them returns.
[[noreturn]] void prove_slots();
[[noreturn]] void prove_warm_reset();
[[noreturn]] void break_on_purpose(std::string_view how);
[[noreturn]] void prove_record(std::string_view what);
void measure();

}  // namespace probe

extern "C" {
extern const std::byte probe_kernels_begin[], probe_kernels_end[];
extern const std::byte probe_kernel_exit[], probe_kernel_calls[], probe_kernel_load[], probe_kernel_store[],
    probe_kernel_jump[], probe_kernel_vector_store[], probe_kernel_read_time[], probe_kernel_write_status[],
    probe_kernel_misuse_fence[], probe_kernel_break[], probe_kernel_endless[], probe_kernel_announced_endless[],
    probe_kernel_wait_for_interrupt[], probe_kernel_touch[], probe_kernel_vector_touch[], probe_kernel_dump[],
    probe_kernel_dirty[], probe_kernel_dirty_and_fault[], probe_kernel_labour[];
}
