// SPDX-License-Identifier: Apache-2.0
// Looks for what an earlier kernel left: every register as it is on entry, the whole stack and scratchpad, and what
// lies behind its own data in the pages that are its own. All of it must be zero but sp and a0 (wire::KernelArguments).
// Status 0: clean; else a bit for each kind of thing that was not, and the first place of the lowest kind (enum Found).
#include "firmware/kernels/sdk.hpp"

namespace {

// What the entry finds, in the order in which it writes it. In the literal pool, which is a fresh copy in every launch:
// the stack stays as it was until it has been looked at.
struct Entry {
  std::uint64_t integer[32];  // x2 and x10 are not written
  std::uint64_t floating[32];
  std::uint64_t fcsr;
  std::uint64_t vector_control[4];  // vstart, vl, vtype, vcsr
  std::uint64_t store_failed;       // of a store-conditional without a load-reserved
  std::uint64_t stack;              // all its words, or-ed
  std::uint64_t padding[57];
  std::uint64_t vector[32 * 16];
};
static_assert(offsetof(Entry, fcsr) == 512 && offsetof(Entry, vector_control) == 520);
static_assert(offsetof(Entry, store_failed) == 552 && offsetof(Entry, stack) == 560);
static_assert(offsetof(Entry, vector) == 1024 && sizeof(Entry) == 5120);

// Bits of the status; from bit 12 on the place: number of the register or of the 64-bit word.
enum Found : std::uint64_t {
  kInteger = 1,
  kFloating = 2,
  kFloatControl = 4,
  kVector = 8,
  kVectorControl = 16,
  kReservation = 32,
  kStack = 64,
  kScratchpad = 128,
  kOtherPages = 256,
};
constexpr unsigned kPlaceShift = 12;
constexpr std::uint64_t kPageBytes = 4096;
constexpr std::uint64_t kOwnStackBytes = 4096;  // more than compute() takes

class Report {
 public:
  void look(Found kind, const std::uint64_t* words, std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
      if (words[i] != 0) return add(kind, i);
    }
  }
  void look(Found kind, std::uint64_t address, std::uint64_t bytes) {
    look(kind, reinterpret_cast<const std::uint64_t*>(address), bytes / sizeof(std::uint64_t));
  }
  void add(Found kind, std::uint64_t place) {
    if (status_ == 0) status_ = place << kPlaceShift;
    status_ |= kind;
  }
  std::uint64_t status() const { return status_; }

 private:
  std::uint64_t status_ = 0;
};

}  // namespace

SPYRE_KERNEL({.name = "residue"});

extern "C" {
Entry kernel_entry_state;
void correction_entry(const wire::KernelArguments* arguments);
// Called, and returns the status: the entry exits.
std::uint64_t compute_entry(const wire::KernelArguments* arguments);
}

// sp is the only register that may be used before the others are written: it is known, the end of the stack.
[[gnu::naked]] void correction_entry(const wire::KernelArguments*) {
  asm volatile(R"(
    lla sp, kernel_entry_state
    .irp n, 1,3,4,5,6,7,8,9,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
    sd x\n, \n * 8(sp)
    .endr
    .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
    fsd f\n, 256 + \n * 8(sp)
    .endr
    csrr t0, fcsr
    sd t0, 512(sp)
    csrr t0, vstart
    sd t0, 520(sp)
    csrr t0, vl
    sd t0, 528(sp)
    csrr t0, vtype
    sd t0, 536(sp)
    csrr t0, vcsr
    sd t0, 544(sp)

    # Whole-register stores begin at vstart. If it is not 0, that is found already.
    csrw vstart, zero
    addi t0, sp, 1024
    li t1, 1024
    vs8r.v v0, (t0)
    add t0, t0, t1
    vs8r.v v8, (t0)
    add t0, t0, t1
    vs8r.v v16, (t0)
    add t0, t0, t1
    vs8r.v v24, (t0)

    # The word that dirty.cpp leaves reserved: the last of the scratchpad.
    ld t0, %[scratchpad_address](a0)
    ld t1, %[scratchpad_bytes](a0)
    add t0, t0, t1
    addi t0, t0, -8
    sc.d t1, zero, (t0)
    sd t1, 552(sp)

    # The stack, all of it, before anything uses it.
    ld t0, %[scratchpad_address](a0)
    li t1, %[stack_from_scratchpad]
    sub t0, t0, t1
    li t1, %[stack_bytes]
    add t1, t0, t1
    mv t2, t1
    li t3, 0
  1:
    ld t4, 0(t0)
    or t3, t3, t4
    addi t0, t0, 8
    bltu t0, t1, 1b
    sd t3, 560(sp)

    mv sp, t2
    call compute_entry

    # This kernel leaves nothing itself: the next one may be another look by the same function.
    li t0, %[own_stack_bytes]
    sub t0, sp, t0
  2:
    sd zero, 0(t0)
    addi t0, t0, 8
    bltu t0, sp, 2b
    li a7, %[exit]
    ecall
  )"
               :
               : [scratchpad_address] "i"(offsetof(wire::KernelArguments, scratchpad_address)),
                 [scratchpad_bytes] "i"(offsetof(wire::KernelArguments, scratchpad_bytes)),
                 [stack_from_scratchpad] "i"(wire::kScratchpadOffset - wire::kStackOffset),
                 [stack_bytes] "i"(wire::kKernelStackBytes), [own_stack_bytes] "i"(kOwnStackBytes),
                 [exit] "i"(wire::KernelCall::Exit));
}

std::uint64_t compute_entry(const wire::KernelArguments* arguments) { return kernel::compute(*arguments); }

std::uint64_t kernel::compute(const wire::KernelArguments& arguments) {
  const Entry& entry = kernel_entry_state;
  Report report;
  report.look(kInteger, entry.integer, 32);
  report.look(kFloating, entry.floating, 32);
  report.look(kFloatControl, &entry.fcsr, 1);
  report.look(kVector, entry.vector, sizeof entry.vector / 8);
  report.look(kVectorControl, entry.vector_control, 4);
  if (entry.store_failed == 0) report.add(kReservation, 0);
  report.look(kStack, &entry.stack, 1);
  report.look(kScratchpad, arguments.scratchpad_address, arguments.scratchpad_bytes);
  // Of the argument page what is behind the arguments; no correction came, so its page is empty; behind the pool.
  const auto arguments_at = reinterpret_cast<std::uint64_t>(&arguments);
  report.look(kOtherPages, arguments_at + sizeof arguments, kPageBytes - sizeof arguments);
  report.look(kOtherPages, arguments.correction_address, wire::kMaxCorrectionBytes);
  const std::uint64_t pool_end = wire::align_up(arguments.pool_bytes, sizeof(std::uint64_t));
  report.look(kOtherPages, arguments.pool_address + pool_end, wire::align_up(pool_end, kPageBytes) - pool_end);
  return report.status();
}
