// SPDX-License-Identifier: Apache-2.0
// F6 and F8 to F12: control blocks that must be refused before they have any effect, with a status that says why.
#include <algorithm>
#include <string>
#include <vector>

#include "host_driver/device/timeline_sharing.hpp"
#include "tests/validation/campaign/management.hpp"
#include "tests/validation/campaign/refusals.hpp"
#include "tests/validation/campaign/scenarios.hpp"

namespace svp::campaign {

namespace {

using wire::ControlBlock;
using wire::Endpoint;
using wire::Opcode;
using wire::Outcome;
using wire::Status;

constexpr std::uint64_t kMax = ~std::uint64_t{0};

// Loops that the card must refuse as a whole, before their first element moves.
void add_bad_nests(Refusals& refusals) {
  const ControlBlock strided = refusals.good_strided();
  const auto level = [](ControlBlock& b, unsigned i) -> wire::StridedLevel& {
    return b.payload.strided.loops.levels[i];
  };
  refusals.add_spoilt("strided DMA of nine levels", strided, Status::BadCount,
                      [](auto& b) { b.payload.strided.loops.depth = 9; });
  refusals.add_spoilt("strided DMA of 2^96 elements", strided, Status::Overflow, [&](auto& b) {
    b.payload.strided.loops.depth = 3;
    for (unsigned i = 0; i < 3; ++i) level(b, i) = {std::uint64_t{1} << 32, 0, 1};
  });
  refusals.add_spoilt("strided DMA that writes elements twice", strided, Status::Overlap,
                      [&](auto& b) { level(b, 1).destination_stride = 1; });
  refusals.add_spoilt("strided DMA over the end", strided, Status::OutOfBounds, [&](auto& b) {
    // 4 bytes an element, 3 steps of the outer level.
    level(b, 1).destination_stride = static_cast<std::int64_t>(BlockBuilder::kRegionBytes / 12 + 16);
  });
}

}  // namespace

void bad_opcodes(ScenarioContext& context) {
  Refusals refusals(context);
  ControlBlock nop = refusals.addressed(BlockBuilder::nop());
  nop.header.opcode = Opcode::Call;
  refusals.add("a command buffer that there is not", nop, Status::UnknownCommandBuffer);
  for (unsigned opcode = 9; opcode < 256; opcode += 31) {
    nop.header.opcode = static_cast<Opcode>(opcode);
    refusals.add("an unknown opcode", nop, Status::BadOpcode);
  }
  refusals.run();
}

void bad_counts(ScenarioContext& context) {
  Refusals refusals(context);
  const ControlBlock dma = refusals.good_dma(), fill = refusals.good_fill();
  refusals.add_spoilt("DMA of nothing", dma, Status::BadSize, [](auto& b) { b.payload.dma.bytes = 0; });
  refusals.add_spoilt("DMA of 2^64 - 1 bytes", dma, Status::NotHostMemory, [](auto& b) { b.payload.dma.bytes = kMax; });
  refusals.add_spoilt("strided DMA without loops", dma, Status::BadSize,
                      [](auto& b) { b.payload.dma.flags = wire::kDmaStrided; });
  add_bad_nests(refusals);
  refusals.add_spoilt("unknown flag of DMA", dma, Status::BadFlags, [](auto& b) { b.payload.dma.flags = 1u << 31; });
  refusals.add_spoilt("offset between sticks", dma, Status::BadAlignment,
                      [](auto& b) { b.payload.dma.destination.offset = 1; });
  refusals.add_spoilt("offset that wraps", dma, Status::OutOfBounds,
                      [](auto& b) { b.payload.dma.destination.offset = kMax - 127; });
  refusals.add_spoilt("FILL of nothing", fill, Status::BadSize, [](auto& b) { b.payload.fill.bytes = 0; });
  refusals.add_spoilt("FILL over the end", fill, Status::OutOfBounds,
                      [](auto& b) { b.payload.fill.bytes = BlockBuilder::kRegionBytes + 128; });
  refusals.run();
}

void wrong_direction(ScenarioContext& context) {
  Refusals refusals(context);
  BlockBuilder& builder = context.builder();
  const ControlBlock dma = refusals.good_dma(), fill = refusals.good_fill();
  refusals.add_spoilt("to the window's header", dma, Status::NotHostMemory, [&](auto& b) {
    b.payload.dma.source = builder.tensor(0);
    b.payload.dma.destination = Endpoint{0, 0, 0, wire::EndpointKind::HostMemory, {}};
  });
  refusals.add_spoilt("to the completions", dma, Status::NotHostMemory, [&](auto& b) {
    b.payload.dma.source = builder.tensor(0);
    b.payload.dma.destination = Endpoint{0, wire::kCompletions.offset, 0, wire::EndpointKind::HostMemory, {}};
  });
  refusals.add_spoilt("an end of no kind", dma, Status::BadEndpointKind,
                      [](auto& b) { b.payload.dma.source.kind = static_cast<wire::EndpointKind>(9); });
  refusals.add_spoilt("FILL of host memory", fill, Status::BadEndpointKind,
                      [&](auto& b) { b.payload.fill.destination = builder.host(0); });
  refusals.add_spoilt("a program out of Tensor memory", refusals.addressed(builder.compute(0, 4096)),
                      Status::WrongRegionType, [&](auto& b) { b.payload.compute.image = builder.tensor(0); });
  refusals.run();
}

void address_outside_the_table(ScenarioContext& context) {
  Refusals refusals(context);
  const ControlBlock dma = refusals.good_dma(), fill = refusals.good_fill();
  const auto at = [](std::uint64_t region) {
    return [region](ControlBlock& b) { b.payload.dma.destination.region_id = region; };
  };
  refusals.add_spoilt("region of nobody", dma, Status::UnknownRegion, at(5));
  refusals.add_spoilt("a physical address", dma, Status::UnknownRegion, at(0x8000'0000));
  refusals.add_spoilt("an address of M's", dma, Status::UnknownRegion, at(kMax));
  refusals.add_spoilt("behind the region", dma, Status::OutOfBounds,
                      [](auto& b) { b.payload.dma.destination.offset = BlockBuilder::kRegionBytes; });
  refusals.add_spoilt("over the region's end", fill, Status::OutOfBounds,
                      [](auto& b) { b.payload.fill.destination.offset = BlockBuilder::kRegionBytes - 128; });
  refusals.add_spoilt("behind the window", dma, Status::NotHostMemory,
                      [&](auto& b) { b.payload.dma.source.offset = context.faulting().config().window_bytes - 128; });
  refusals.run();
}

void freed_and_foreign_regions(ScenarioContext& context) {
  Refusals refusals(context);
  const Region freed =
      value_or_throw(context.faulting().acquire_region(RegionType::Tensor, BlockBuilder::kRegionBytes));
  value_or_throw(context.faulting().release_region(freed));
  const ControlBlock dma = refusals.good_dma();
  refusals.add_spoilt("a freed region", dma, Status::UnknownRegion,
                      [&](auto& b) { b.payload.dma.destination = endpoint_of(freed); });
  // As its owner calls it; the faulting function's own of that name has another generation, or there is none.
  for (const Region& region : context.bystander().regions()) {
    Endpoint foreign = endpoint_of(region);
    foreign.generation += 1000;
    refusals.add_spoilt("another generation of a region", dma,
                        region.base.region_id == context.builder().tensor().base.region_id ||
                                region.base.region_id == context.builder().program().base.region_id
                            ? Status::StaleRegion
                            : Status::UnknownRegion,
                        [&](auto& b) { b.payload.dma.destination = foreign; });
  }
  refusals.add_spoilt("an old generation of its own", dma, Status::StaleRegion,
                      [](auto& b) { --b.payload.dma.destination.generation; });
  // The third function may wait for a stream of the bystander. By the name that its grant has there, this one may not.
  Device& management = context.management();
  const wire::Target owner = wire::target_of_virtual(kBystander), grantee = wire::target_of_virtual(kThird);
  const TimelineGrant granted = value_or_throw(grant_timeline(
      management,
      {.function = owner, .generation = figures_of(management, owner).generation, .stream = 0, .incarnation = 1},
      grantee, figures_of(management, grantee).generation));
  constexpr std::uint64_t kBudget = wire::kTicksPerSecond / 100;  // of a wait that is not refused
  refusals.add("a grant of another function",
               refusals.addressed(BlockBuilder::granted_wait(granted.grant, granted.epoch, 1, 1, kBudget)),
               Status::UnknownGrant);
  refusals.run();
}

void fault_burst(ScenarioContext& context) {
  constexpr std::size_t kBad = 1000, kAtOnce = 50;
  context.bystander();
  TestStream& stream = context.stream();
  const auto before = value_or_throw(context.faulting().card_statistics()).values.stats;
  const std::string console_before = context.card().machine().console();
  ControlBlock bad = BlockBuilder::nop();
  bad.header.magic = wire::kControlBlockMagic;
  bad.header.sticks = 1;
  bad.header.stream = stream.stream();
  bad.header.generation = context.faulting().config().generation;
  // Of an incarnation of the stream that never was: every one of them is refused for itself, and poisons nothing.
  bad.header.incarnation = context.faulting().stream_incarnation(stream.stream()) + 77;
  std::vector<ControlBlock> some(kAtOnce, bad);
  std::uint64_t sequence = 0;
  context.trigger();
  bool all_sent = true, all_ended = true;
  for (std::size_t sent = 0; sent < kBad && all_ended; sent += kAtOnce) {
    for (ControlBlock& block : some) block.header.sequence = ++sequence;
    all_sent &= stream.submit(some, true);
    all_ended = stream.wait_all(context.timeout());
  }
  context.fired(all_sent && stream.ended() == kBad, std::to_string(stream.ended()) + " bad jobs");
  const auto after = value_or_throw(context.faulting().card_statistics()).values.stats;
  const std::uint64_t counted = after.rejected - before.rejected;
  context.detected(
      "refused and counted", stream.ended_with(Outcome::Rejected) == kBad && counted == kBad,
      std::to_string(stream.ended_with(Outcome::Rejected)) + " refused, counted " + std::to_string(counted));
  const std::size_t logged = context.card().machine().console().size() - console_before.size();
  context.contained("console", logged < 4096, std::to_string(logged) + " bytes of console");
  context.contained();
  context.recover_stream();
}

}  // namespace svp::campaign
