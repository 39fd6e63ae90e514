// SPDX-License-Identifier: Apache-2.0
// Does one wrong thing at an address: what fault reports are tested with. The dimension "what" chooses: 0 nothing,
// 1 load, 2 store, 3 jump, 4 illegal instruction, 5 unknown environment call, 6 breakpoint, 7 the address as exit
// status, 8 barrier, then load, on the last core only, 9 claims for ever, 10 claims of extreme counts: exits with the
// number of answers that were wrong, 11 load and 12 store by the compute array, 13 and 14 by its products of a
// chunk, 15 and 16 by its reductions of lines, 17 and 18 by its conversions, 19 and 20 by its blocks of items, 21 and
// 22 by its copies, 23 and 24 by its search of the largest elements, then, when it has not done that, by itself. The
// address is "operand 0 plus offset"; its operand need not exist.
#include "firmware/kernels/array_request.hpp"
#include "firmware/kernels/sdk.hpp"
#include "shared/device_program.hpp"

namespace {
enum Symbol : unsigned { kAddress, kOffset, kWhat };
enum What : std::uint64_t {
  kNothing,
  kLoad,
  kStore,
  kJump,
  kIllegal,
  kBadCall,
  kBreakpoint,
  kStatus,
  kLastCoreLoad,
  kClaimForEver,
  kExtremeClaims,
  kArrayLoad,
  kArrayStore,
  kArrayChunkLoad,
  kArrayChunkStore,
  kArrayLinesLoad,
  kArrayLinesStore,
  kArrayConvertLoad,
  kArrayConvertStore,
  kArrayBlocksLoad,
  kArrayBlocksStore,
  kArrayCopiesLoad,
  kArrayCopiesStore,
  kArrayTopKLoad,
  kArrayTopKStore,
};

// Kept as functions of their own, so that a fault's pc has a name.
[[gnu::noinline]] void stray_load(std::uint64_t address) {
  std::uint64_t value;
  asm volatile("ld %0, 0(%1)" : "=r"(value) : "r"(address) : "memory");
}
[[gnu::noinline]] void stray_store(std::uint64_t address) {
  asm volatile("sd zero, 0(%0)" : : "r"(address) : "memory");
}
[[gnu::noinline]] void stray_jump(std::uint64_t address) { asm volatile("jalr %0" : : "r"(address) : "ra", "memory"); }

// On one core. The exit status: answers that are not as the contract says.
std::uint64_t extreme_claims() {
  constexpr std::uint64_t kAll = ~std::uint64_t{0};
  std::uint64_t wrong = 0;
  const auto expect = [&wrong](std::uint64_t count, std::uint64_t first) { wrong += kernel::claim(count) != first; };
  for (unsigned i = 0; i < 2; ++i) {
    expect(0, 0);
    expect(5, 0);
    expect(0, 5);
    expect(kAll - 10, 5);
    expect(kAll, kAll - 5);
    expect(1, wire::kNoMoreItems);
    expect(kAll, wire::kNoMoreItems);
    kernel::barrier();
  }
  return wrong;
}
// The stick that holds the address is copied from, or to, the kernel's own scratchpad.
void request_copy(wire::array::Request& request, std::uint64_t stick, std::uint64_t own, bool stores) {
  request.kind = wire::array::Kind::Rows;
  request.opcode = static_cast<std::uint32_t>(wire::program::Opcode::Copy);
  request.format = static_cast<std::uint32_t>(wire::program::Format::Dl16);
  request.inputs = 1;
  request.singles = 0;
  request.count = 1;
  request.row[0] = {stores ? own : stick, wire::kStickBytes};
  request.row[wire::array::kOutput] = {stores ? stick : own, wire::kStickBytes};
}

// The stick that holds the address is a row of the product, or its sums.
void request_product(wire::array::Request& rows, std::uint64_t stick, std::uint64_t own, bool stores) {
  auto& request = reinterpret_cast<wire::array::ChunkRequest&>(rows);
  auto* const list = reinterpret_cast<std::uint64_t*>(own + wire::kStickBytes);
  list[0] = stores ? own : stick;
  list[1] = own;
  request.kind = wire::array::Kind::Chunk;
  request.rows = request.depth = request.lanes = 1;
  request.row_list = reinterpret_cast<std::uint64_t>(list);
  request.panel_list = reinterpret_cast<std::uint64_t>(list + 1);
  request.sums = stores ? stick : own;
  request.half_step = 0;
  request.format = static_cast<std::uint32_t>(wire::program::Format::Dl16);
  request.half = 0;
  request.row_step = request.panel_step = 0;
}

// The stick that holds the address is a line, or the result.
void request_sum(wire::array::Request& rows, std::uint64_t stick, std::uint64_t own, bool stores) {
  auto& request = reinterpret_cast<wire::array::LinesRequest&>(rows);
  auto* const list = reinterpret_cast<std::uint64_t*>(own + wire::kStickBytes);
  list[0] = stores ? own : stick;
  list[1] = stores ? stick : own;
  request.kind = wire::array::Kind::Lines;
  request.opcode = static_cast<std::uint32_t>(wire::program::Opcode::Sum);
  request.format = static_cast<std::uint32_t>(wire::program::Format::Dl16);
  request.along = 0;
  request.lines = request.sticks = request.lanes = 1;
  request.line_list = reinterpret_cast<std::uint64_t>(list);
  request.output_list = reinterpret_cast<std::uint64_t>(list + 1);
  request.step = 0;
}

// The stick that holds the address is all of a unit's input, or of its output: two sticks.
void request_conversion(wire::array::Request& rows, std::uint64_t stick, std::uint64_t own, bool stores) {
  auto& request = reinterpret_cast<wire::array::ConvertRequest&>(rows);
  const auto narrow = static_cast<std::uint32_t>(wire::program::Format::Dl16);
  const auto wide = static_cast<std::uint32_t>(wire::program::Format::Fp32);
  request.kind = wire::array::Kind::Convert;
  request.opcode = static_cast<std::uint32_t>(wire::program::Opcode::Copy);
  request.from_format = stores ? narrow : wide;
  request.to_format = stores ? wide : narrow;
  request.from_sticks = stores ? 1 : 2;
  request.to_sticks = stores ? 2 : 1;
  request.single = 0;
  request.count = 1;
  request.from = {stores ? own : stick, 0};
  request.to = {stores ? stick : own, 0};
  request.from_step = request.to_step = 0;
}

// The stick that holds the address is the row of the block, or what its column becomes.
void request_block(wire::array::Request& rows, std::uint64_t stick, std::uint64_t own, bool stores) {
  auto& request = reinterpret_cast<wire::array::BlocksRequest&>(rows);
  request.kind = wire::array::Kind::Blocks;
  request.item = 2;
  request.rows = request.columns = 1;
  request.count = 1;
  request.input = {stores ? own : stick, 0};
  request.output = {stores ? stick : own, 0};
  request.input_step = request.output_step = 0;
}

// The stick that holds the address is what is copied, or the copy.
void request_copies(wire::array::Request& rows, std::uint64_t stick, std::uint64_t own, bool stores) {
  auto& request = reinterpret_cast<wire::array::CopiesRequest&>(rows);
  auto* const list = reinterpret_cast<std::uint64_t*>(own + wire::kStickBytes);
  list[0] = stores ? own : stick;
  list[1] = stores ? stick : own;
  request.kind = wire::array::Kind::Copies;
  request.rows = request.sticks = 1;
  request.from_list = reinterpret_cast<std::uint64_t>(list);
  request.to_list = reinterpret_cast<std::uint64_t>(list + 1);
  request.from_step = request.to_step = 0;
}

// The stick that holds the address is searched, or has the list of merits.
void request_top_k(wire::array::Request& rows, std::uint64_t stick, std::uint64_t own, bool stores) {
  auto& request = reinterpret_cast<wire::array::TopKRequest&>(rows);
  auto* const list = reinterpret_cast<std::uint64_t*>(own + wire::kStickBytes);
  list[0] = stores ? own : stick;
  request.kind = wire::array::Kind::TopK;
  request.format = static_cast<std::uint32_t>(wire::program::Format::Dl16);
  request.ranks = request.rows = request.sticks = request.lanes = 1;
  request.across = request.first = 0;
  request.row_list = reinterpret_cast<std::uint64_t>(list);
  request.step = 0;
  request.merits = stores ? stick : own;
}

// The exit status when the array has reached the address: 1; when it does not say which byte is missing: 2.
std::uint64_t stray_by_array(const wire::KernelArguments& arguments, std::uint64_t address, What what) {
  constexpr std::uint64_t kOwnAt = 4096;
  auto& request = *reinterpret_cast<wire::array::Request*>(arguments.scratchpad_address);
  const std::uint64_t own = arguments.scratchpad_address + kOwnAt;
  const std::uint64_t stick = address / wire::kStickBytes * wire::kStickBytes;
  const bool stores = (what - kArrayLoad) % 2 != 0;  // loads and stores alternate
  switch (stores ? what - 1 : what) {
    case kArrayLoad: request_copy(request, stick, own, stores); break;
    case kArrayChunkLoad: request_product(request, stick, own, stores); break;
    case kArrayLinesLoad: request_sum(request, stick, own, stores); break;
    case kArrayConvertLoad: request_conversion(request, stick, own, stores); break;
    case kArrayBlocksLoad: request_block(request, stick, own, stores); break;
    case kArrayTopKLoad: request_top_k(request, stick, own, stores); break;
    default: request_copies(request, stick, own, stores); break;
  }
  const wire::array::Outcome outcome = kernel::ask_array(request);
  if (outcome == wire::array::Outcome::Done) return 1;
  if (outcome == wire::array::Outcome::Missing && request.address != stick) return 2;
  if (stores) {
    stray_store(address);
  } else {
    stray_load(address);
  }
  return 0;
}
}  // namespace

SPYRE_KERNEL({
    .name = "stray",
    .scratchpad_bytes = 8192,
    .operands = {{.name = "target", .access = kernel::Access::ReadWrite, .shape = {"offset", "what"}}},
    .symbols = {kernel::address_of(0), kernel::extent_of(0, "offset"), kernel::extent_of(0, "what")},
});

std::uint64_t kernel::compute(const wire::KernelArguments& arguments) {
  const std::uint64_t address = symbol(kAddress) + symbol(kOffset);
  switch (symbol(kWhat)) {
    case kNothing: return 0;
    case kLoad: stray_load(address); return 0;
    case kStore: stray_store(address); return 0;
    case kJump: stray_jump(address); return 0;
    case kIllegal: asm volatile("unimp"); return 0;
    case kBadCall: environment_call(static_cast<wire::KernelCall>(0x7FFF), 0); return 0;
    case kBreakpoint: asm volatile("ebreak"); return 0;
    case kStatus: return address;
    case kLastCoreLoad:
      barrier();
      if (arguments.core_index + 1 == arguments.core_count) stray_load(address);
      return 0;
    case kClaimForEver:
      for (;;) claim(1);  // bounded: the watchdog ends the launch
    case kExtremeClaims: return extreme_claims();
    case kArrayLoad:
    case kArrayStore:
    case kArrayChunkLoad:
    case kArrayChunkStore:
    case kArrayLinesLoad:
    case kArrayLinesStore:
    case kArrayConvertLoad:
    case kArrayConvertStore:
    case kArrayBlocksLoad:
    case kArrayBlocksStore:
    case kArrayCopiesLoad:
    case kArrayCopiesStore:
    case kArrayTopKLoad:
    case kArrayTopKStore: return stray_by_array(arguments, address, static_cast<What>(symbol(kWhat)));
    default: return 1;
  }
}
