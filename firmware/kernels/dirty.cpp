// SPDX-License-Identifier: Apache-2.0
// Leaves as much behind as a kernel can: what residue.cpp must not find. The dimension "how" chooses the end:
//   0  fills stack, scratchpad, pool and every register; then writes the word at "flag" (8 bytes for each core of the
//      launch) until the word 1024 bytes behind it is not 0, and exits
//   1  the same, then an illegal instruction instead of waiting
//   2  changes no f register and executes no scalar f instruction: only vector instructions that raise float exceptions
//   3  its first vector instruction loads whole registers and faults in the middle of them
// Flag and gate are in memory that its first access fills, so with every register in use nothing faults any more.
#include "firmware/kernels/sdk.hpp"

namespace {

enum Symbol : unsigned { kFlag, kHow };
enum How : std::uint64_t { kWait, kIllegal, kVectorFlags, kPartialLoad };

constexpr std::uint64_t kPattern = 0xA5C3'A5C3'A5C3'A5C3;
constexpr std::uint64_t kStackLeft = 1024;  // to the end of the stack: what this kernel needs of it itself
constexpr std::uint64_t kPoolWords = 4096;

void fill(std::uint64_t address, std::uint64_t end) {
  for (; address < end; address += sizeof(std::uint64_t)) *reinterpret_cast<std::uint64_t*>(address) = kPattern;
}

// All but the last word of the scratchpad, which stays zero and reserved (residue.cpp).
void fill_memory(const wire::KernelArguments& arguments) {
  const std::uint64_t stack = arguments.scratchpad_address - wire::kScratchpadOffset + wire::kStackOffset;
  fill(stack, stack + wire::kKernelStackBytes - kStackLeft);
  const std::uint64_t scratchpad_end = arguments.scratchpad_address + arguments.scratchpad_bytes;
  fill(arguments.scratchpad_address, scratchpad_end - sizeof(std::uint64_t));
}

}  // namespace

SPYRE_KERNEL({
    .name = "dirty",
    .operands = {{.name = "flag", .access = kernel::Access::ReadWrite, .shape = {"row", "how"}}},
    .symbols = {kernel::address_of(0), kernel::extent_of(0, "how")},
});

extern "C" {
// Becomes the rest of the literal pool.
std::uint64_t kernel_dirty_pool[kPoolWords];

// a0: the flag; a1: how; a2: the word to reserve; a3: the pattern. Never returns.
[[gnu::naked, gnu::noinline]] void dirty_registers(std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t) {
  asm volatile(R"(
    lr.d t0, (a2)
    .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
    fmv.d.x f\n, a3
    .endr
    li t0, 0x7f
    csrw fcsr, t0
    csrw vstart, zero
    vsetvli t0, zero, e64, m8, ta, ma
    vmv.v.x v0, a3
    vmv.v.x v8, a3
    vmv.v.x v16, a3
    vmv.v.x v24, a3
    li t0, 100
    vsetvli zero, t0, e16, m2, ta, ma
    csrwi vcsr, 7
    csrwi vstart, 9
    mv x31, a0
    mv x30, a3
    mv x28, a1
    .irp n, 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27
    mv x\n, x30
    .endr
    bnez x28, 2f
    mv x28, x30
  1:
    sd x30, 0(x31)
    ld x29, %[gate](x31)
    beqz x29, 1b
    li a7, 0
    li a0, 0
    ecall
  2:
    mv x29, x30
    unimp
  )"
               :
               : [gate] "i"(1024));
}

// Inexact, divide by zero, invalid: without one scalar f instruction, so that only the v registers count as used.
[[gnu::naked, gnu::noinline]] void raise_float_flags() {
  asm volatile(R"(
    li t0, 2
    vsetvli zero, t0, e64, m1, ta, ma
    vmv.v.i v8, 3
    vmv.v.i v9, 0
    vfcvt.f.x.v v10, v8
    vfdiv.vv v11, v10, v9
    vfdiv.vv v12, v9, v9
    vfdiv.vv v13, v11, v10
    vfrec7.v v14, v9
    vfsqrt.v v15, v10
    li a0, 0
    li a7, 0
    ecall
  )");
}

// Eight registers from `from`, behind the middle of which nothing is mapped.
[[gnu::naked, gnu::noinline]] void load_and_fault(std::uint64_t) {
  asm volatile(R"(
    vl8re64.v v8, (a0)
    unimp
  )");
}
}

std::uint64_t kernel::compute(const wire::KernelArguments& arguments) {
  const std::uint64_t scratchpad_end = arguments.scratchpad_address + arguments.scratchpad_bytes;
  const std::uint64_t flag = symbol(kFlag) + arguments.core_index * sizeof(std::uint64_t);
  switch (const std::uint64_t how = symbol(kHow)) {
    case kWait:
    case kIllegal:
      fill_memory(arguments);
      fill(reinterpret_cast<std::uint64_t>(kernel_dirty_pool),
           reinterpret_cast<std::uint64_t>(kernel_dirty_pool + kPoolWords));
      *reinterpret_cast<volatile std::uint64_t*>(flag);
      dirty_registers(flag, how, scratchpad_end - sizeof(std::uint64_t), kPattern);
      return 1;
    case kVectorFlags: raise_float_flags(); return 1;
    case kPartialLoad:
      fill(scratchpad_end - 512, scratchpad_end);
      load_and_fault(scratchpad_end - 512);
      return 1;
    default: return 1;
  }
}
