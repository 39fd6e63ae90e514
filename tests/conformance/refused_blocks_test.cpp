// SPDX-License-Identifier: Apache-2.0
// Control blocks that are wrong (scenarios F6 to F11): each is REJECTED with the name of its field, nothing is
// executed, nothing is written, and the ring goes on. The firmware's own test walks more values; this one proves that
// the card that boots is the same. Blocks that launch kernels: refused_launches_test.cpp.
#include "tests/conformance/refused_blocks.hpp"

#include <limits>
#include <set>

namespace svp::conformance {
namespace {

using test::Workbench;
using wire::ControlBlock;
using wire::Field;
using wire::Opcode;
using wire::Outcome;
using wire::Status;

constexpr std::uint64_t kMax = ~std::uint64_t{0};

std::vector<BadField> dma_cases() {
  std::vector<BadField> cases;
  const auto source = [](ControlBlock& b) -> wire::Endpoint& { return b.payload.dma.source; };
  const auto destination = [](ControlBlock& b) -> wire::Endpoint& { return b.payload.dma.destination; };
  for (const Base base : {Base::ToDevice, Base::FromDevice, Base::OnDevice}) {
    const auto add = [&](const char* what, auto spoil, Status status, Field field) {
      cases.push_back({what, base, spoil, status, field});
    };
    add("0 bytes", [](auto& b) { b.payload.dma.bytes = 0; }, Status::BadSize, Field::DmaBytes);
    add(
        "2^64-1 bytes", [](auto& b) { b.payload.dma.bytes = kMax; },
        base == Base::ToDevice ? Status::NotHostMemory : Status::OutOfBounds, Field::DmaSource);
    add(
        "strided without loops", [](auto& b) { b.payload.dma.flags = wire::kDmaStrided; }, Status::BadSize,
        Field::Sticks);
    add("unknown flag", [](auto& b) { b.payload.dma.flags = 1u << 31; }, Status::BadFlags, Field::DmaFlags);
    add_endpoint_cases(cases, base, Field::DmaSource, base != Base::ToDevice, source);
    add_endpoint_cases(cases, base, Field::DmaDestination, base != Base::FromDevice, destination);
  }
  cases.push_back({"ends that overlap", Base::OnDevice,
                   [](auto& b) { b.payload.dma.destination.offset = b.payload.dma.source.offset + 128; },
                   Status::Overflow, Field::DmaDestination});
  return cases;
}

// Made of the good linear block of a base: three sticks, and loops behind it.
template <typename Spoil>
auto with_loops(Spoil spoil) {
  return [spoil](ControlBlock& b) {
    b.header.sticks = 3;
    wire::StridedDmaPayload& strided = b.payload.strided;
    strided.dma.flags = wire::kDmaStrided;
    strided.loops = {};
    strided.loops.depth = 2;
    strided.loops.element_bytes = 2;
    const std::uint64_t rows = strided.dma.bytes / 8;
    strided.loops.levels[0] = {rows, 4, 1};
    strided.loops.levels[1] = {4, 1, static_cast<std::int64_t>(rows)};
    spoil(strided);
  };
}

std::vector<BadField> strided_cases() {
  std::vector<BadField> cases;
  for (const Base base : {Base::ToDevice, Base::FromDevice, Base::OnDevice}) {
    const auto add = [&](const char* what, auto spoil, Status status, Field field) {
      cases.push_back({what, base, with_loops(spoil), status, field});
    };
    constexpr auto kFar = std::numeric_limits<std::int64_t>::max();
    add("no levels", [](auto& s) { s.loops.depth = 0; }, Status::BadCount, Field::StridedDepth);
    add("nine levels", [](auto& s) { s.loops.depth = 9; }, Status::BadCount, Field::StridedDepth);
    add("elements of 3 bytes", [](auto& s) { s.loops.element_bytes = 3; }, Status::BadSize, Field::StridedElement);
    add("count 0", [](auto& s) { s.loops.levels[1].count = 0; }, Status::BadCount, Field::StridedCount);
    add(
        "count 2^63", [](auto& s) { s.loops.levels[1].count = std::uint64_t{1} << 63; }, Status::Overflow,
        Field::StridedCount);
    add("a level more", [](auto& s) { s.loops.levels[2].count = 1; }, Status::ReservedBits, Field::StridedLevelUnused);
    add("reserved word", [](auto& s) { s.loops.reserved[6] = 1; }, Status::ReservedBits, Field::Reserved);
    add("bytes of other loops", [](auto& s) { s.dma.bytes += 2; }, Status::BadSize, Field::DmaBytes);
    add(
        "source stride 2^63 - 1", [](auto& s) { s.loops.levels[1].source_stride = kFar; }, Status::Overflow,
        Field::StridedSource);
    add(
        "destination stride 2^63 - 1", [](auto& s) { s.loops.levels[1].destination_stride = kFar; }, Status::Overflow,
        Field::StridedDestination);
    add(
        "elements written twice", [](auto& s) { s.loops.levels[1].destination_stride = 1; }, Status::Overlap,
        Field::StridedDestination);
    add("odd offset", [](auto& s) { ++s.dma.destination.offset; }, Status::BadAlignment, Field::DmaDestination);
  }
  return cases;
}

std::vector<BadField> all_cases() {
  std::vector<BadField> cases;
  for (const Base base : {Base::Nop, Base::ToDevice, Base::Fill}) add_header_cases(cases, base);
  for (const auto opcode : {Opcode::Call, Opcode::Prepared}) {
    cases.push_back({"call of a command buffer that there is not", Base::Nop,
                     [=](auto& b) { b.header.opcode = opcode; }, Status::UnknownCommandBuffer, Field::CallBuffer});
    cases.push_back({"call with reserved words", Base::Nop,
                     [=](auto& b) {
                       b.header.opcode = opcode;
                       b.payload.call.reserved[4] = 1;
                     },
                     Status::ReservedBits, Field::Reserved});
  }
  cases.push_back({"patch of nothing", Base::Nop, [](auto& b) { b.header.opcode = Opcode::Patch; }, Status::BadSize,
                   Field::PatchBytes});
  for (const auto opcode : {Opcode::EventSignal, Opcode::EventWait}) {
    cases.push_back({"event without a value", Base::Nop, [=](auto& b) { b.header.opcode = opcode; },
                     Status::EventRegressed, Field::EventValue});
    cases.push_back({"event with reserved words", Base::Nop,
                     [=](auto& b) {
                       b.header.opcode = opcode;
                       b.payload.event.value = 1;
                       b.payload.event.reserved[3] = 1;
                     },
                     Status::ReservedBits, Field::Reserved});
  }
  cases.push_back({"signal that names a stream", Base::Nop,
                   [](auto& b) {
                     b.header.opcode = Opcode::EventSignal;
                     b.payload.event = svp::test::Blocks::event_wait(1, 0, 1).payload.event;
                   },
                   Status::ReservedBits, Field::EventStream});
  cases.push_back({"wait for a stream that is not open", Base::Nop,
                   [](auto& b) {
                     b.header.opcode = Opcode::EventWait;
                     b.payload.event = svp::test::Blocks::event_wait(127, 1, 1).payload.event;
                   },
                   Status::UnknownStream, Field::EventStream});
  cases.push_back({"wait with an unknown flag", Base::Nop,
                   [](auto& b) {
                     b.header.opcode = Opcode::EventWait;
                     b.payload.event = svp::test::Blocks::event_wait(1, 1, 1).payload.event;
                     b.payload.event.flags = 2;
                   },
                   Status::BadFlags, Field::EventFlags});
  cases.push_back({"wait by a grant that was never made", Base::Nop,
                   [](auto& b) {
                     b.header.opcode = Opcode::EventWait;
                     b.payload.event = svp::test::Blocks::granted_wait(0, 1, 1, 1).payload.event;
                   },
                   Status::UnknownGrant, Field::EventGrant});
  cases.push_back({"unknown opcode", Base::Nop, [](auto& b) { b.header.opcode = static_cast<Opcode>(0x77); },
                   Status::BadOpcode, Field::OpcodeField});
  cases.push_back({"NOP with a payload", Base::Nop, [](auto& b) { b.payload.words[7] = 1; }, Status::ReservedBits,
                   Field::Reserved});
  cases.push_back(
      {"FILL of nothing", Base::Fill, [](auto& b) { b.payload.fill.bytes = 0; }, Status::BadSize, Field::FillBytes});
  cases.push_back({"reserved bytes of FILL", Base::Fill, [](auto& b) { b.payload.fill.reserved[0] = 1; },
                   Status::ReservedBits, Field::Reserved});
  add_endpoint_cases(cases, Base::Fill, Field::FillDestination, true,
                     [](ControlBlock& b) -> wire::Endpoint& { return b.payload.fill.destination; });
  for (const auto& more : {dma_cases(), strided_cases()}) cases.insert(cases.end(), more.begin(), more.end());
  return cases;
}

TEST_P(RefusedBlocks, TheUnspoiltBlocksAreGood) {
  for (const Base base : {Base::Nop, Base::Fill, Base::ToDevice, Base::OnDevice, Base::FromDevice}) {
    ControlBlock block = addressed(good(base));
    seal(block);
    EXPECT_EQ(send(block).outcome, Outcome::Ok) << static_cast<int>(base);
    ++sequence_;
  }
}

TEST_P(RefusedBlocks, EveryBadFieldIsRejectedByItsNameAndHarmsNothing) {
  std::set<Field> named;
  for (const auto& bad : all_cases()) {
    expect_rejected(bad);
    if (HasFailure()) break;
    named.insert(bad.field);
  }
  for (auto field = static_cast<unsigned>(Field::Magic); field <= static_cast<unsigned>(Field::FillBytes); ++field) {
    if (HasFailure()) break;
    const auto wanted = static_cast<Field>(field);
    if (wanted == Field::Budget) continue;  // of a launch
    EXPECT_TRUE(named.contains(wanted)) << "no case for " << wire::name(wanted);
  }
}

INSTANTIATE_TEST_SUITE_P(WithAndWithoutCrc, RefusedBlocks, testing::Bool(),
                         [](const auto& info) { return info.param ? "Crc" : "NoCrc"; });

}  // namespace
}  // namespace svp::conformance
