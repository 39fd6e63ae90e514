// SPDX-License-Identifier: Apache-2.0
// Waits at a gate, then copies: C = A, word by word, once the first word of G is not 0. Who holds the gate knows that
// the kernel runs and has touched neither A nor C; what tests of regions that come and go under a kernel need.
#include "firmware/kernels/sdk.hpp"

namespace {
enum Symbol : unsigned { kAddressA, kAddressC, kAddressG, kWords };
}  // namespace

SPYRE_KERNEL({
    .name = "gated",
    .operands = {{.name = "A", .access = kernel::Access::Read, .shape = {"words"}},
                 {.name = "C", .access = kernel::Access::Write, .shape = {"words"}},
                 {.name = "G", .access = kernel::Access::Read, .shape = {"one"}}},
    .symbols = {kernel::address_of(0), kernel::address_of(1), kernel::address_of(2), kernel::extent_of(0, "words")},
});

std::uint64_t kernel::compute(const wire::KernelArguments&) {
  const auto* gate = reinterpret_cast<const std::uint64_t*>(symbol(kAddressG));
  // bounded: the launch's budget: it waits for the test that opens the gate
  while (__atomic_load_n(gate, __ATOMIC_ACQUIRE) == 0) {
  }
  const auto* from = reinterpret_cast<const std::uint64_t*>(symbol(kAddressA));
  auto* to = reinterpret_cast<std::uint64_t*>(symbol(kAddressC));
  for (std::uint64_t i = 0; i < symbol(kWords); ++i) to[i] = from[i];
  return 0;
}
