// SPDX-License-Identifier: Apache-2.0
// Command buffers of one function: nobody else's, no older ones, and none whose regions have gone.
#include <array>

#include "tests/conformance/card_buffers.hpp"

namespace svp::conformance {
namespace {

using test::endpoint_of;
using test::Workbench;
using wire::ControlBlock;
using wire::Field;
using wire::Opcode;
using wire::Outcome;
using wire::Status;

void expect_refused(Workbench& bench, const ControlBlock& block, Status status, Field field, std::uint32_t index = 0) {
  const auto end = bench.run(block);
  EXPECT_EQ(end.outcome, Outcome::Rejected);
  EXPECT_EQ(end.status, status) << wire::name(end.status);
  EXPECT_EQ(end.field, field) << wire::name(end.field);
  EXPECT_EQ(end.block, index);
  EXPECT_TRUE(bench.device().reset_stream(0));
}

// The word at `offset` of the tensor region.
std::uint64_t word_at(Workbench& bench, std::uint64_t offset) {
  EXPECT_EQ(bench.run(Workbench::dma(bench.tensor(offset), bench.host(0), wire::kStickBytes)).outcome, Outcome::Ok);
  return bench.host_words(0, 8)[0];
}

TEST(CardBuffers, RunTheirBlocksInOrderWhateverTheHostWritesMeanwhile) {
  const auto device = provider().open();
  Workbench bench(*device);
  const std::array blocks{Workbench::fill(bench.tensor(0), 256, 1), Workbench::fill(bench.tensor(128), 128, 2),
                          Workbench::dma(bench.tensor(128), bench.tensor(1024), 128)};
  const auto buffer = buffer_of(*device, blocks);
  std::memset(device->host_memory().data() + wire::kMiB, 0xff, 4096);
  for (int i = 0; i < 3; ++i) {
    const auto end = bench.run(call_of(buffer));
    EXPECT_EQ(end.outcome, Outcome::Ok) << wire::name(end.status);
    EXPECT_EQ(end.bytes, 512u);
    EXPECT_EQ(end.block, 2u);
  }
  EXPECT_EQ(word_at(bench, 0), 1u);
  EXPECT_EQ(word_at(bench, 1024), 2u);
  expect_healthy(*device);
}

TEST(CardBuffers, OfAnotherFunctionAreUnknown) {
  const auto device = provider().open();
  const auto other = provider().open_bystander();
  Workbench bench(*device), theirs(*other);
  const std::array blocks{Workbench::fill(theirs.tensor(0), 128, 7)};
  const auto buffer = buffer_of(*other, blocks);
  ControlBlock patch{};
  patch.header.opcode = Opcode::Patch;
  patch.payload.patch = {.buffer = buffer.buffer,
                         .block = 0,
                         .epoch = buffer.epoch,
                         .offset = device->host_memory_offset(),
                         .bytes = wire::kBufferBlockBytes,
                         .reserved = {}};
  for (const ControlBlock& block : {call_of(buffer), call_of(buffer, Opcode::Prepared), patch}) {
    expect_refused(bench, block, Status::UnknownCommandBuffer, Field::CallBuffer);
  }
  EXPECT_EQ(destroy_buffer(*device, buffer).status, Status::UnknownCommandBuffer);
  EXPECT_EQ(theirs.run(call_of(buffer)).outcome, Outcome::Ok);
  EXPECT_EQ(word_at(theirs, 0), 7u);
  expect_healthy(*other);
}

TEST(CardBuffers, ThatWereDestroyedAreUnknownAndTheirEpochNeverComesBack) {
  const auto device = provider().open();
  Workbench bench(*device);
  const std::array blocks{Workbench::nop()};
  const auto first = buffer_of(*device, blocks);
  EXPECT_EQ(destroy_buffer(*device, first).outcome, Outcome::Ok);
  expect_refused(bench, call_of(first), Status::UnknownCommandBuffer, Field::CallBuffer);
  const auto second = buffer_of(*device, blocks);
  EXPECT_EQ(second.buffer, first.buffer);
  expect_refused(bench, call_of(first), Status::StaleCommandBuffer, Field::CallEpoch);
  EXPECT_EQ(bench.run(call_of(second)).outcome, Outcome::Ok);
}

TEST(CardBuffers, OfAnEarlierOwnerAreStale) {
  CardBufferName before;
  {
    const auto device = provider().open();
    before = buffer_of(*device, std::array{Workbench::nop()});
  }
  const auto device = provider().open();
  Workbench bench(*device);
  expect_refused(bench, call_of(before), Status::UnknownCommandBuffer, Field::CallBuffer);
  const auto now = buffer_of(*device, std::array{Workbench::nop()});
  EXPECT_EQ(now.buffer, before.buffer);
  expect_refused(bench, call_of(before), Status::StaleCommandBuffer, Field::CallEpoch);
}

TEST(CardBuffers, WhoseRegionWasReleasedAreRefusedBeforeTheyBegin) {
  const auto device = provider().open();
  Workbench bench(*device);
  const auto region = value_or_throw(device->acquire_region(RegionType::Tensor, 2 * wire::kMiB));
  const std::array blocks{Workbench::fill(bench.tensor(0), 128, 9), Workbench::fill(endpoint_of(region), 128, 9)};
  const auto buffer = buffer_of(*device, blocks);
  EXPECT_EQ(bench.run(call_of(buffer)).outcome, Outcome::Ok);
  EXPECT_EQ(bench.run(Workbench::fill(bench.tensor(0), 128, 1)).outcome, Outcome::Ok);
  value_or_throw(device->release_region(region));
  expect_refused(bench, call_of(buffer), Status::UnknownRegion, Field::FillDestination, 1);
  EXPECT_EQ(word_at(bench, 0), 1u) << "its first block ran";
  const auto refused = create_buffer(*device, blocks);
  EXPECT_EQ(refused.status, Status::UnknownRegion);
  EXPECT_EQ(refused.values.buffer.block, 1u);
  expect_healthy(*device);
}

}  // namespace
}  // namespace svp::conformance
