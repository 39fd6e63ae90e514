// SPDX-License-Identifier: Apache-2.0
// Asks the compute array for random things, most of which it may not have: what isolation by the array is tested with.
// The area at operand 0 and a part of the scratchpad are the only memory that good requests write. Every core of the
// launch writes the lists that the others' requests name, while they are being executed. Ends with 0 when each answer
// was one that the contract allows and some requests were executed; else the status says what was wrong.
#include <iterator>

#include "firmware/kernels/array_request.hpp"
#include "firmware/kernels/sdk.hpp"
#include "shared/device_program.hpp"

namespace {

using wire::array::BlocksRequest;
using wire::array::ChunkRequest;
using wire::array::ConvertRequest;
using wire::array::CopiesRequest;
using wire::array::Kind;
using wire::array::LinesRequest;
using wire::array::Outcome;
using wire::array::Request;
using wire::array::TopKRequest;

enum Symbol : unsigned { kArea, kSeed, kCount };
enum Status : std::uint64_t {
  kWell,
  kNoSuchOutcome,
  kTooMuchDone,
  kNothingDone,
  kNothingMissing,
  kNothingRefused,
  kAnsweredWithoutArray,
};

constexpr std::uint64_t kAreaBytes = 1 * wire::kMiB;
constexpr std::uint64_t kOwnAt = 64 * wire::kKiB;  // in the scratchpad, behind the request
constexpr std::uint64_t kListWords = 512;          // at the beginning of the area
constexpr std::uint64_t kMostSticks = wire::array::kMaxSticks;

class Attack {
 public:
  Attack(const wire::KernelArguments& arguments, std::uint64_t area, std::uint64_t seed)
      : arguments_(arguments), area_(area), state_(seed * 2 + 1) {}

  Status run(std::uint64_t count) {
    auto& request = *reinterpret_cast<Request*>(arguments_.scratchpad_address);
    for (std::uint64_t i = 0; i < count; ++i) {
      make(request);
      const Outcome outcome = kernel::ask_array(request);
      if (static_cast<std::uint32_t>(outcome) >= std::size(outcomes_)) return kNoSuchOutcome;
      ++outcomes_[static_cast<std::uint32_t>(outcome)];
      if (outcome == Outcome::Done && request.done > wire::array::kMaxLineSticks) return kTooMuchDone;
    }
    return judge(count);
  }

 private:
  std::uint64_t of(Outcome outcome) const { return outcomes_[static_cast<std::uint32_t>(outcome)]; }
  Status judge(std::uint64_t count) const {
    if (arguments_.array_version == 0) return of(Outcome::None) == count ? kWell : kAnsweredWithoutArray;
    if (of(Outcome::Done) < count / 16) return kNothingDone;
    if (of(Outcome::Missing) < count / 16) return kNothingMissing;
    return of(Outcome::Refused) < count / 64 ? kNothingRefused : kWell;
  }

  // xorshift64*.
  std::uint64_t random() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 0x2545F4914F6CDD1D;
  }
  std::uint64_t below(std::uint64_t bound) { return (random() >> 32) % bound; }
  bool rarely() { return below(24) == 0; }
  std::uint32_t word(std::uint64_t usual) { return static_cast<std::uint32_t>(rarely() ? random() : usual); }

  // A stick that this launch may write.
  std::uint64_t own() {
    if (below(8) == 0) return arguments_.scratchpad_address + kOwnAt + below(4096) * wire::kStickBytes;
    const std::uint64_t lists = kListWords * sizeof(std::uint64_t);
    return area_ + lists + below((kAreaBytes - lists) / wire::kStickBytes) * wire::kStickBytes;
  }
  // Anything else: what others have, what is only read or executed, what is no memory, places next to an end.
  std::uint64_t foreign() {
    const std::uint64_t stick = below(1 << 14) * wire::kStickBytes;
    switch (below(9)) {
      case 0: return wire::region_window(static_cast<unsigned>(below(wire::kRegionsPerFunction))) + stick;
      case 1: return wire::region_window(wire::kProgramRegion) + below(1 << 22) * wire::kStickBytes;
      case 2: return 0x80000000 + below(1 << 20) * wire::kStickBytes;   // the firmware
      case 3: return 0x100000000 + below(1 << 26) * wire::kStickBytes;  // others' regions, by their physical addresses
      case 4: return arguments_.compute_entry / wire::kStickBytes * wire::kStickBytes + stick;
      case 5: return reinterpret_cast<std::uint64_t>(&arguments_);
      case 6: return wire::kContextWindow + below(8) * wire::kContextStride + below(1 << 23) * wire::kStickBytes;
      case 7: return below(2) * (std::uint64_t{1} << 38) - stick;
      default: return random();
    }
  }
  std::uint64_t place() { return rarely() ? foreign() : own(); }
  std::uint64_t step() { return rarely() ? random() : below(16) * wire::kStickBytes; }
  std::uint64_t list() { return rarely() ? place() : area_ + below(kListWords - 64) * sizeof(std::uint64_t); }

  void make(Request& request) {
    auto* const words = reinterpret_cast<std::uint64_t*>(area_);
    for (unsigned i = 0; i < 16; ++i) words[below(kListWords)] = below(64) == 0 ? foreign() : own();
    for (unsigned i = 0; i < sizeof(Request) / sizeof(std::uint64_t); ++i) {
      reinterpret_cast<std::uint64_t*>(&request)[i] = rarely() ? random() : 0;
    }
    switch (below(7)) {
      case 0: make_rows(request); break;
      case 1: make_chunk(reinterpret_cast<ChunkRequest&>(request)); break;
      case 2: make_lines(reinterpret_cast<LinesRequest&>(request)); break;
      case 3: make_conversion(reinterpret_cast<ConvertRequest&>(request)); break;
      case 4: make_blocks(reinterpret_cast<BlocksRequest&>(request)); break;
      case 5: make_copies(reinterpret_cast<CopiesRequest&>(request)); break;
      default: make_top_k(reinterpret_cast<TopKRequest&>(request)); break;
    }
    if (rarely()) request.kind = static_cast<Kind>(below(16));
  }

  void make_rows(Request& request) {
    request.kind = Kind::Rows;
    request.inputs = word(1 + below(3));
    request.opcode = word(request.inputs == 1 ? 0x30 + below(4) : request.inputs == 2 ? 0x20 + below(12) : 0x2F);
    if (below(4) == 0) {
      request.inputs = 1;
      request.opcode = static_cast<std::uint32_t>(wire::program::Opcode::Copy);
    }
    request.format = word(below(2));
    request.singles = word(below(2) << below(3)) & ((1u << request.inputs % 32) - 1);
    request.count = rarely() ? random() : 1 + below(below(8) == 0 ? 2 * kMostSticks : 16);
    for (wire::array::Row& row : request.row) row = {place(), step()};
    request.table = place();
  }

  void make_chunk(ChunkRequest& request) {
    request.kind = Kind::Chunk;
    request.rows = word(1 + below(8));
    request.depth = word(1 + below(wire::array::kMaxDepth));
    request.lanes = word(1 + below(64));
    request.row_list = list();
    request.panel_list = list();
    request.sums = place();
    request.half_step = step();
    if (below(2) == 0) {
      request.format = word(static_cast<std::uint32_t>(wire::program::Format::Fp8E4m3));
      request.half = word(below(2));
    } else if (below(2) == 0) {
      request.rows = word(1 + below(wire::array::kFewRows));
      request.depth = word(1 + below(wire::array::kMaxFewDepth));
    }
    request.row_step = step();
    if (below(2) == 0) {
      request.panel_step = step();
      request.panel_list = place();
    }
  }

  void make_lines(LinesRequest& request) {
    request.kind = Kind::Lines;
    request.opcode = word(below(5) == 0 ? 0x68 : 0x60 + below(4));
    request.format = word(below(2));
    request.along = word(below(2));
    request.lines = word(1 + below(8));
    request.sticks = word(1 + below(16));
    request.lanes = word(1 + below(32));
    request.line_list = list();
    request.output_list = list();
    request.step = step();
  }

  void make_conversion(ConvertRequest& request) {
    request.kind = Kind::Convert;
    request.opcode = word(0x10 + (below(2) == 0 ? 0 : 2 + below(5)));
    request.from_format = word(below(8));
    request.to_format = word(below(8));
    request.from_sticks = word(1 + below(2));
    request.to_sticks = word(1 + below(2));
    request.single = word(below(8) == 0);
    request.count = rarely() ? random() : 1 + below(below(8) == 0 ? 2 * kMostSticks : 16);
    request.from = {place(), step()};
    request.to = {place(), step()};
    request.from_step = step();
    request.to_step = step();
  }

  void make_blocks(BlocksRequest& request) {
    const std::uint32_t item = 1u << below(3);
    request.kind = Kind::Blocks;
    request.item = word(item);
    request.rows = word(1 + below(wire::kStickBytes / item));
    request.columns = word(1 + below(wire::kStickBytes / item));
    request.count = rarely() ? random() : 1 + below(wire::array::most_blocks(item));
    request.input = {place(), step()};
    request.input_step = step();
    request.output = {place(), step()};
    request.output_step = step();
  }

  void make_copies(CopiesRequest& request) {
    request.kind = Kind::Copies;
    request.rows = word(1 + below(16));
    request.sticks = word(1 + below(16));
    request.from_list = list();
    request.to_list = list();
    request.from_step = step();
    request.to_step = step();
  }

  void make_top_k(TopKRequest& request) {
    request.kind = Kind::TopK;
    request.format = word(below(2));
    request.ranks = word(1 + below(below(8) == 0 ? 2 * wire::array::kMaxRanks : 64));
    request.across = word(below(2));
    request.rows = word(1 + below(8));
    request.sticks = word(1 + below(16));
    request.lanes = word(1 + below(32));
    request.first = word(below(2) == 0 ? 0 : random());
    request.row_list = list();
    request.step = step();
    request.merits = place();
  }

  const wire::KernelArguments& arguments_;
  std::uint64_t area_;
  std::uint64_t state_;
  std::uint64_t outcomes_[4] = {};
};

}  // namespace

SPYRE_KERNEL({
    .name = "array_attack",
    .scratchpad_bytes = 1 << 20,
    .operands = {{.name = "area", .access = kernel::Access::ReadWrite, .shape = {"seed", "count"}}},
    .symbols = {kernel::address_of(0), kernel::extent_of(0, "seed"), kernel::extent_of(0, "count")},
});

std::uint64_t kernel::compute(const wire::KernelArguments& arguments) {
  Attack attack(arguments, symbol(kArea), symbol(kSeed) + arguments.core_index * 0x9E3779B97F4A7C15);
  return attack.run(symbol(kCount));
}
