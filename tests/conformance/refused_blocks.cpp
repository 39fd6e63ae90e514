// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/refused_blocks.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "shared/crc32c.hpp"
#include "shared/virtio.hpp"

namespace svp::conformance {

using test::Workbench;
using wire::ControlBlock;
using wire::Field;
using wire::Opcode;
using wire::Outcome;
using wire::Status;

namespace {
constexpr std::uint64_t kMax = ~std::uint64_t{0};
constexpr std::uint64_t kCanaryBytes = 1 * wire::kMiB;  // of host memory, from its start
constexpr std::uint64_t kReadBack = 2 * wire::kMiB;     // in host memory
constexpr std::uint64_t kTensorPattern = 0xC0FFEE0DDBA11ADull;
}  // namespace

void RefusedBlocks::SetUp() {
  OpenOptions options;
  if (GetParam()) options.optional_features |= wire::kFeatureControlBlockCrc;
  device_ = provider().open(options);
  ASSERT_EQ((device_->features() & wire::kFeatureControlBlockCrc) != 0, GetParam());
  bench_.emplace(*device_);
  victim_ = value_or_throw(device_->open_stream(StreamPriority::Low));
  other_ = value_or_throw(device_->open_stream(StreamPriority::High));
  const auto memory = device_->host_memory().first(kCanaryBytes);
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<std::byte>(i * 7 + i / 251);
  canary_.assign(memory.begin(), memory.end());
  ASSERT_EQ(bench_->run(Workbench::fill(bench_->tensor(0), Workbench::kRegionBytes, kTensorPattern)).outcome,
            Outcome::Ok);
}

void RefusedBlocks::TearDown() {
  expect_healthy(*device_);
  bench_.reset();
  device_.reset();
}

ControlBlock RefusedBlocks::good(Base base) const {
  switch (base) {
    case Base::ToDevice: return Workbench::dma(bench_->host(0), bench_->tensor(0), kBytes);
    case Base::FromDevice: return Workbench::dma(bench_->tensor(0), bench_->host(0), kBytes);
    case Base::OnDevice: return Workbench::dma(bench_->tensor(0), bench_->tensor(64 * wire::kKiB), kBytes);
    case Base::Fill: return Workbench::fill(bench_->tensor(0), kBytes, 0x55);
    case Base::Nop:
    case Base::Compute: break;  // Compute: made where there are images
  }
  return Workbench::nop();
}

ControlBlock RefusedBlocks::addressed(ControlBlock block) const {
  auto& header = block.header;
  header.magic = wire::kControlBlockMagic;
  header.sticks = static_cast<std::uint8_t>(std::max(1u, wire::required_sticks(block)));
  header.stream = victim_;
  header.incarnation = device_->stream_incarnation(victim_);
  header.generation = device_->config().generation;
  header.sequence = sequence_;
  return block;
}

void RefusedBlocks::seal(ControlBlock& block) const {
  const unsigned sticks = std::clamp<unsigned>(block.header.sticks, 1, wire::kMaxControlBlockSticks);
  block.header.crc32c = 0;
  if (GetParam()) block.header.crc32c = wire::crc32c(0, &block, sticks * wire::kStickBytes);
}

wire::Completion RefusedBlocks::send(const ControlBlock& block) {
  test::CompletionRecorder recorder;
  const ControlBlockRequest request{&block, &recorder};
  EXPECT_EQ(value_or_throw(device_->submit_verbatim(victim_, {&request, 1})), 1u);
  const auto status = device_->wait_until([&] { return recorder.ended() == 1; }, test::soon());
  if (status == WaitStatus::TimedOut) std::abort();  // the card would call a recorder that is gone
  return recorder.all().front();
}

void RefusedBlocks::heal() {
  value_or_throw(device_->reset_stream(victim_));
  sequence_ = 1;
}

std::uint64_t RefusedBlocks::launches() const {
  return value_or_throw(device_->card_statistics()).values.stats.launches;
}

void RefusedBlocks::expect_nothing_written() {
  EXPECT_EQ(std::memcmp(device_->host_memory().data(), canary_.data(), canary_.size()), 0) << "host memory changed";
  const auto end = bench_->run(Workbench::dma(bench_->tensor(0), bench_->host(kReadBack), 128 * wire::kKiB), other_);
  ASSERT_EQ(end.outcome, Outcome::Ok) << "another stream was harmed";
  const auto* words = reinterpret_cast<const std::uint64_t*>(device_->host_memory().data() + kReadBack);
  const bool same =
      std::all_of(words, words + 128 * wire::kKiB / 8, [](std::uint64_t w) { return w == kTensorPattern; });
  EXPECT_TRUE(same) << "region memory changed";
}

void RefusedBlocks::expect_stream_unharmed() {
  ControlBlock after = addressed(Workbench::nop());
  seal(after);
  EXPECT_EQ(send(after).outcome, Outcome::Ok) << "a stream was harmed that the block does not name";
  ++sequence_;
}

void RefusedBlocks::expect_stream_poisoned_until_reset() {
  ControlBlock after = addressed(Workbench::nop());
  ++after.header.sequence;
  seal(after);
  const auto aborted = send(after);
  EXPECT_EQ(aborted.outcome, Outcome::Aborted);
  EXPECT_EQ(aborted.status, Status::StreamPoisoned);
  heal();
  after = addressed(Workbench::nop());
  seal(after);
  EXPECT_EQ(send(after).outcome, Outcome::Ok) << "the reset did not repair the stream";
  ++sequence_;
}

void RefusedBlocks::expect_rejected(const BadField& bad) {
  SCOPED_TRACE(std::string(bad.what) + ", base " + std::to_string(static_cast<int>(bad.base)));
  ControlBlock block = addressed(good(bad.base));
  block.header.cookie = ++cookie_;
  bad.spoil(block);
  if (bad.field != Field::Crc) seal(block);
  const wire::Completion end = send(block);
  EXPECT_EQ(end.outcome, Outcome::Rejected);
  EXPECT_EQ(end.status, bad.status) << wire::name(end.status);
  EXPECT_EQ(end.field, bad.field) << wire::name(end.field);
  EXPECT_EQ(end.start_time, 0u) << "it was begun";
  EXPECT_EQ(end.bytes, 0u);
  expect_nothing_written();
  if (bad.names_no_stream) {
    expect_stream_unharmed();
  } else {
    expect_stream_poisoned_until_reset();
  }
}

void add_header_cases(std::vector<BadField>& cases, Base base) {
  const auto add = [&](const char* what, auto spoil, Status status, Field field, bool names_no_stream = false) {
    cases.push_back({what, base, spoil, status, field, names_no_stream});
  };
  add("magic", [](auto& b) { b.header.magic ^= 0x100; }, Status::BadMagic, Field::Magic, true);
  add("0 sticks", [](auto& b) { b.header.sticks = 0; }, Status::BadSize, Field::Sticks, true);
  add("255 sticks", [](auto& b) { b.header.sticks = 255; }, Status::BadSize, Field::Sticks, true);
  add(
      "sticks of another opcode", [](auto& b) { b.header.sticks = b.header.sticks == 4 ? 1 : 4; }, Status::BadSize,
      Field::Sticks);
  add("generation", [](auto& b) { ++b.header.generation; }, Status::StaleGeneration, Field::Generation, true);
  add("stream that is not open", [](auto& b) { b.header.stream = 99; }, Status::UnknownStream, Field::Stream, true);
  add("stream out of range", [](auto& b) { b.header.stream = 0x80000080; }, Status::UnknownStream, Field::Stream, true);
  add("incarnation", [](auto& b) { --b.header.incarnation; }, Status::StaleIncarnation, Field::Incarnation, true);
  add("flags", [](auto& b) { b.header.flags = 1; }, Status::BadFlags, Field::Flags);
  add("reserved", [](auto& b) { b.header.reserved1 = 1; }, Status::ReservedBits, Field::Reserved);
  add("CRC", [](auto& b) { b.header.crc32c ^= 0x10; }, Status::BadCrc, Field::Crc);
  add("skipped sequence", [](auto& b) { b.header.sequence += 1; }, Status::BadSequence, Field::Sequence);
  add("repeated sequence", [](auto& b) { b.header.sequence -= 1; }, Status::BadSequence, Field::Sequence);
}

void add_endpoint_cases(std::vector<BadField>& cases, Base base, Field field, bool device,
                        wire::Endpoint& (*at)(ControlBlock&)) {
  const auto add = [&](const char* what, auto spoil, Status status) {
    cases.push_back({what, base, [at, spoil](ControlBlock& b) { spoil(at(b)); }, status, field});
  };
  add("kind", [](auto& e) { e.kind = static_cast<wire::EndpointKind>(9); }, Status::BadEndpointKind);
  add("reserved byte", [](auto& e) { e.reserved[1] = 0xff; }, Status::ReservedBits);
  if (device) {
    add("offset between sticks", [](auto& e) { e.offset += 1; }, Status::BadAlignment);
    add("region of nobody", [](auto& e) { e.region_id = 5; }, Status::UnknownRegion);
    add("physical address as region", [](auto& e) { e.region_id = 0x80000000; }, Status::UnknownRegion);
    add("old region", [](auto& e) { --e.generation; }, Status::StaleRegion);
    add("over the region's end", [](auto& e) { e.offset = Workbench::kRegionBytes - 128; }, Status::OutOfBounds);
    add("offset that wraps", [](auto& e) { e.offset = kMax - 127; }, Status::OutOfBounds);
  } else {
    add("region named for host memory", [](auto& e) { e.region_id = 1; }, Status::ReservedBits);
    add("the window's header", [](auto& e) { e.offset = 0; }, Status::NotHostMemory);
    add("the rings", [](auto& e) { e.offset = wire::kQueueBlock.offset; }, Status::NotHostMemory);
    add("completions", [](auto& e) { e.offset = wire::kCompletions.offset; }, Status::NotHostMemory);
    add("behind the window", [](auto& e) { e.offset = wire::kDefaultWindowBytes - 128; }, Status::NotHostMemory);
    add("an address of the card's memory", [](auto& e) { e.offset = 0x80000000; }, Status::NotHostMemory);
    add("window offset that wraps", [](auto& e) { e.offset = kMax - 63; }, Status::NotHostMemory);
  }
}

}  // namespace svp::conformance
