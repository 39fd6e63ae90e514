// SPDX-License-Identifier: Apache-2.0
// Figures. One device tick is 100 ns, so everything is measured over many repetitions.
#include <array>

#include "firmware/arch/riscv/assembly.hpp"
#include "firmware/hal/address_space.hpp"
#include "firmware/hal/hart.hpp"
#include "firmware/probe/probe.hpp"
#include "shared/kernel_abi.hpp"
#include "shared/units.hpp"

namespace probe {

namespace {

constexpr std::uint64_t kNanosecondsPerTick = 1'000'000'000 / wire::kTicksPerSecond;

hal::Context first, second;

template <typename Body>
std::uint64_t nanoseconds(std::uint64_t repetitions, Body body) {
  std::uint64_t best = ~std::uint64_t{0};
  for (int attempt = 0; attempt < 5; ++attempt) {
    const std::uint64_t began = hal::now();
    for (std::uint64_t i = 0; i < repetitions; ++i) body(i);
    const std::uint64_t taken = (hal::now() - began) * kNanosecondsPerTick / repetitions;
    best = taken < best ? taken : best;
  }
  return best;
}

void launch(const Space& space, hal::Context& context, const std::byte* kernel, std::uint64_t argument) {
  space.start(context, kernel, argument);
  (void)run_through(context);
}

void measure_entries() {
  const Space space;
  const Space elsewhere;
  constexpr std::uint64_t kMany = 20'000;
  figure("now", nanoseconds(kMany, [](std::uint64_t) { (void)hal::now(); }), "ns");
  launch(space, first, probe_kernel_exit, 0);
  figure("bare_entry_and_exit",
         nanoseconds(kMany,
                     [&](std::uint64_t) {
                       space.start(first, probe_kernel_exit, 0);
                       (void)riscv_enter(&first);
                     }),
         "ns (no clock, no timer: the limit)");
  figure("empty_kernel", nanoseconds(kMany, [&](std::uint64_t) { launch(space, first, probe_kernel_exit, 0); }), "ns");
  figure("empty_kernel_after_dirty",
         nanoseconds(kMany,
                     [&](std::uint64_t) {
                       launch(space, first, probe_kernel_dirty, 0);
                       launch(space, first, probe_kernel_exit, 0);
                     }),
         "ns (two kernels)");
  figure(
      "empty_kernel_other_root",
      nanoseconds(kMany / 4, [&](std::uint64_t i) { launch(i % 2 ? space : elsewhere, first, probe_kernel_exit, 0); }),
      "ns");
  space.start(second, probe_kernel_endless, 0);
  figure("message_stop_and_resume",
         nanoseconds(kMany / 4,
                     [&](std::uint64_t) {
                       hal::wake(hal::hart_id());
                       (void)hal::run(second, wire::kTicksPerSecond / 1000);
                     }),
         "ns");
  hal::drop(second);
}

void measure_moves() {
  const hal::MemoryRange memory = hal::region_memory();
  constexpr std::uint64_t kLarge = 32 * wire::kMiB;
  if (memory.end - memory.begin < 4 * kLarge) return;
  std::byte* from = hal::pointer(memory.begin);
  std::byte* to = hal::pointer(memory.begin + 2 * kLarge);
  hal::fill(from, 0x0123456789abcdef, kLarge);
  hal::fill(to, 0, kLarge);
  struct Size {
    const char* name;
    std::uint64_t bytes;
  };
  constexpr std::array kSizes = {Size{"copy_128", 128},   Size{"copy_256", 256},   Size{"copy_512", 512},
                                 Size{"copy_1024", 1024}, Size{"copy_4096", 4096}, Size{"copy_16K", 16384},
                                 Size{"copy_64K", 65536}, Size{"copy_1M", 1 << 20}};
  for (const Size& size : kSizes) {
    const std::uint64_t repetitions = size.bytes < 65536 ? 20'000 : (200 * wire::kMiB / size.bytes);
    const std::uint64_t each = nanoseconds(repetitions, [&](std::uint64_t) { hal::copy(to, from, size.bytes); });
    figure(size.name, each, "ns");
    if (size.bytes >= 1024) figure(size.name, size.bytes * 1000 / (each == 0 ? 1 : each), "MB/s");
  }
  figure("copy_32M", kLarge * 1000 / nanoseconds(1, [&](std::uint64_t) { hal::copy(to, from, kLarge); }), "MB/s");
  figure("copy_1M_misaligned",
         wire::kMiB * 1000 / nanoseconds(200, [&](std::uint64_t) { hal::copy(to + 5, from + 3, wire::kMiB); }), "MB/s");
  figure("fill_64K", 65536 * 1000 / nanoseconds(2000, [&](std::uint64_t) { hal::fill(to, 5, 65536); }), "MB/s");
  figure("fill_32M", kLarge * 1000 / nanoseconds(1, [&](std::uint64_t) { hal::fill(to, 5, kLarge); }), "MB/s");
}

}  // namespace

void measure() {
  measure_entries();
  measure_moves();
}

}  // namespace probe
