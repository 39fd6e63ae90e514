// SPDX-License-Identifier: Apache-2.0
// Control blocks, images and correction tensors that are wrong, on the card in the emulator (scenarios F6 to F11, F32):
// each is REJECTED with the name of its field, nothing is executed, nothing is written, and the ring goes on. The native
// test of the firmware's checks walks more values; this one proves that the card that boots is the same.
#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>
#include <set>

#include "shared/crc32c.hpp"
#include "tests/device/card/card_support.hpp"

namespace flex {
namespace {

using test::must;
using test::Workbench;
using wire::ControlBlock;
using wire::Field;
using wire::Opcode;
using wire::Outcome;
using wire::Status;

constexpr std::uint64_t kMax = ~std::uint64_t{0};
constexpr std::uint64_t kCanaryBytes = 1 * wire::kMiB;  // of host memory, from its start
constexpr std::uint64_t kReadBack = 2 * wire::kMiB;     // in host memory
constexpr std::uint64_t kTensorPattern = 0xC0FFEE0DDBA11ADull;
constexpr std::uint64_t kBytes = 512;                // of a good transfer
constexpr std::uint64_t kImageAt = 64 * wire::kKiB;  // in the Program region: a good one
constexpr std::uint64_t kBadImageAt = 256 * wire::kKiB;
constexpr std::uint64_t kCorrectionAt = 512 * wire::kKiB;

enum class Base { Nop, ToDevice, FromDevice, OnDevice, Fill, Compute };

struct BadField {
  const char* what;
  Base base;
  std::function<void(ControlBlock&)> spoil;
  Status status;
  Field field;
  bool names_no_stream = false;  // then no stream may be poisoned
};

class HostileBlocks : public testing::TestWithParam<bool> {
 protected:
  static void SetUpTestSuite() { card_ = test::boot(); }
  static void TearDownTestSuite() { card_.reset(); }

  void SetUp() override {
    OpenOptions options;
    if (GetParam()) options.optional_features |= wire::kFeatureControlBlockCrc;
    device_ = must(card_->open_virtual(1, options));
    ASSERT_EQ((device_->features() & wire::kFeatureControlBlockCrc) != 0, GetParam());
    bench_.emplace(*device_);
    victim_ = must(device_->open_stream(StreamPriority::Low));
    other_ = must(device_->open_stream(StreamPriority::High));
    const auto memory = device_->host_memory().first(kCanaryBytes);
    for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<std::byte>(i * 7 + i / 251);
    canary_.assign(memory.begin(), memory.end());
    ASSERT_EQ(bench_->run(Workbench::fill(bench_->tensor(0), Workbench::kRegionBytes, kTensorPattern)).outcome,
              Outcome::Ok);
    empty_ = test::kernel_image(*card_, "empty");
    bench_->load(kImageAt, empty_);
    image_bytes_ = empty_.size();
  }
  void TearDown() override {
    test::expect_healthy(*card_, *device_);
    bench_.reset();
    device_.reset();
  }

  ControlBlock good(Base base) const {
    switch (base) {
      case Base::Nop: return Workbench::nop();
      case Base::ToDevice: return Workbench::dma(bench_->host(0), bench_->tensor(0), kBytes);
      case Base::FromDevice: return Workbench::dma(bench_->tensor(0), bench_->host(0), kBytes);
      case Base::OnDevice: return Workbench::dma(bench_->tensor(0), bench_->tensor(64 * wire::kKiB), kBytes);
      case Base::Fill: return Workbench::fill(bench_->tensor(0), kBytes, 0x55);
      case Base::Compute: break;
    }
    ControlBlock block = bench_->compute(kImageAt, image_bytes_, 3);
    block.payload.compute.segments[3] = {
        bench_->tensor().base.region_id, 0, kBytes, bench_->tensor().generation, wire::kSegmentRead, {}};
    return block;
  }

  // The header that the driver would write.
  ControlBlock addressed(ControlBlock block) const {
    auto& header = block.header;
    header.magic = wire::kControlBlockMagic;
    header.sticks = static_cast<std::uint8_t>(std::max(1u, wire::required_sticks(header.opcode)));
    header.stream = victim_;
    header.incarnation = device_->stream_incarnation(victim_);
    header.generation = device_->config().generation;
    header.sequence = sequence_;
    return block;
  }

  // As the card sees it: the driver sends 1 to 4 sticks whatever the header claims.
  void seal(ControlBlock& block) const {
    const unsigned sticks = std::clamp<unsigned>(block.header.sticks, 1, wire::kMaxControlBlockSticks);
    block.header.crc32c = 0;
    if (GetParam()) block.header.crc32c = wire::crc32c(0, &block, sticks * wire::kStickBytes);
  }

  wire::Completion send(const ControlBlock& block) {
    test::Endings recorder;
    const ControlBlockRequest request{&block, &recorder};
    EXPECT_EQ(must(device_->submit_verbatim(victim_, {&request, 1})), 1u);
    const auto status = device_->wait_until([&] { return recorder.count() == 1; }, test::soon());
    if (status == WaitStatus::TimedOut) std::abort();
    return recorder.all().front();
  }

  // Of the victim stream, after a refusal: back to where a good block with sequence 1 is expected.
  void heal() {
    must(device_->reset_stream(victim_));
    sequence_ = 1;
  }

  std::uint64_t launches() const { return must(device_->card_statistics()).values.stats.launches; }

  // Host memory and region memory as they were; the reading back is itself a good block on another stream.
  void expect_nothing_written() {
    EXPECT_EQ(std::memcmp(device_->host_memory().data(), canary_.data(), canary_.size()), 0) << "host memory changed";
    const auto end = bench_->run(Workbench::dma(bench_->tensor(0), bench_->host(kReadBack), 128 * wire::kKiB), other_);
    ASSERT_EQ(end.outcome, Outcome::Ok) << "another stream was harmed";
    const auto* words = reinterpret_cast<const std::uint64_t*>(device_->host_memory().data() + kReadBack);
    const bool same =
        std::all_of(words, words + 128 * wire::kKiB / 8, [](std::uint64_t w) { return w == kTensorPattern; });
    EXPECT_TRUE(same) << "region memory changed";
  }

  void expect_rejected(const BadField& bad) {
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
    ControlBlock after = addressed(Workbench::nop());
    if (bad.names_no_stream) {
      seal(after);
      EXPECT_EQ(send(after).outcome, Outcome::Ok) << "a stream was harmed that the block does not name";
      ++sequence_;
      return;
    }
    ++after.header.sequence;
    seal(after);
    const auto aborted = send(after);
    EXPECT_EQ(aborted.outcome, Outcome::Aborted);
    EXPECT_EQ(aborted.status, Status::StreamPoisoned);
    heal();
    after = addressed(Workbench::nop());
    seal(after);
    EXPECT_EQ(send(after).outcome, Outcome::Ok) << "the reset did not mend the stream";
    ++sequence_;
  }

  static inline std::unique_ptr<Card> card_;
  std::unique_ptr<Device> device_;
  std::optional<Workbench> bench_;
  std::uint32_t victim_ = 0;
  std::uint32_t other_ = 0;
  std::uint64_t sequence_ = 1;  // of the victim stream: what the card expects next
  std::uint64_t cookie_ = 0;
  std::uint64_t image_bytes_ = 0;
  std::vector<std::byte> empty_;
  std::vector<std::byte> canary_;
};

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
    add("strided", [](auto& b) { b.payload.dma.flags = wire::kDmaStrided; }, Status::Unsupported, Field::DmaFlags);
    add("unknown flag", [](auto& b) { b.payload.dma.flags = 1u << 31; }, Status::BadFlags, Field::DmaFlags);
    add_endpoint_cases(cases, base, Field::DmaSource, base != Base::ToDevice, source);
    add_endpoint_cases(cases, base, Field::DmaDestination, base != Base::FromDevice, destination);
  }
  cases.push_back({"ends that overlap", Base::OnDevice,
                   [](auto& b) { b.payload.dma.destination.offset = b.payload.dma.source.offset + 128; },
                   Status::Overflow, Field::DmaDestination});
  return cases;
}

std::vector<BadField> compute_cases() {
  std::vector<BadField> cases;
  const auto add = [&](const char* what, auto spoil, Status status, Field field) {
    cases.push_back({what, Base::Compute, spoil, status, field});
  };
  add_endpoint_cases(cases, Base::Compute, Field::ComputeImage, true,
                     [](ControlBlock& b) -> wire::Endpoint& { return b.payload.compute.image; });
  add(
      "image in host memory", [](auto& b) { b.payload.compute.image = {0, wire::kHostMemoryOffset, 0, {}, {}}; },
      Status::BadEndpointKind, Field::ComputeImage);
  add(
      "image smaller than its header", [](auto& b) { b.payload.compute.image_bytes = 64; }, Status::BadSize,
      Field::ComputeImageBytes);
  add(
      "image larger than any", [](auto& b) { b.payload.compute.image_bytes = wire::kMaxImageBytes + 128; },
      Status::BadSize, Field::ComputeImageBytes);
  add(
      "image cut short", [](auto& b) { b.payload.compute.image_bytes -= 128; }, Status::ImageLayout,
      Field::ImageHeaderField);
  add(
      "image where zeros are", [](auto& b) { b.payload.compute.image.offset = 1536 * wire::kKiB; }, Status::ImageMagic,
      Field::ImageHeaderField);
  add(
      "correction too large", [](auto& b) { b.payload.compute.correction_bytes = wire::kMaxCorrectionBytes + 1; },
      Status::CorrectionTooLarge, Field::ComputeCorrectionBytes);
  add(
      "core that does not exist", [](auto& b) { b.payload.compute.core_mask = 4; }, Status::BadCoreMask,
      Field::ComputeCoreMask);
  add("endless budget", [](auto& b) { b.header.budget = kMax; }, Status::BadBudget, Field::Budget);
  add("reserved words", [](auto& b) { b.payload.compute.reserved[6] = 1; }, Status::ReservedBits, Field::Reserved);
  const auto segment = [&](const char* what, auto spoil, Status status) {
    add(what, [spoil](ControlBlock& b) { spoil(b.payload.compute.segments[3]); }, status, Field::ComputeSegment);
  };
  segment("access", [](auto& s) { s.access = 7; }, Status::BadAccess);
  segment("reserved", [](auto& s) { s.reserved[0] = 1; }, Status::ReservedBits);
  segment("empty", [](auto& s) { s.bytes = 0; }, Status::BadSize);
  segment("unknown region", [](auto& s) { s.region_id = 4; }, Status::UnknownRegion);
  segment("old region", [](auto& s) { ++s.generation; }, Status::StaleRegion);
  segment("over the end", [](auto& s) { s.offset = Workbench::kRegionBytes; }, Status::OutOfBounds);
  return cases;
}

std::vector<BadField> all_cases() {
  std::vector<BadField> cases;
  for (const Base base : {Base::Nop, Base::ToDevice, Base::Fill, Base::Compute}) add_header_cases(cases, base);
  for (const auto opcode : {Opcode::EventSignal, Opcode::EventWait, Opcode::Call}) {
    cases.push_back({"opcode that is not built", Base::Nop, [=](auto& b) { b.header.opcode = opcode; },
                     Status::Unsupported, Field::OpcodeField});
  }
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
  for (auto& list : {dma_cases(), compute_cases()}) cases.insert(cases.end(), list.begin(), list.end());
  return cases;
}

TEST_P(HostileBlocks, TheUnspoiltBlocksAreGood) {
  for (const Base base : {Base::Nop, Base::Fill, Base::ToDevice, Base::OnDevice, Base::FromDevice, Base::Compute}) {
    ControlBlock block = addressed(good(base));
    seal(block);
    EXPECT_EQ(send(block).outcome, Outcome::Ok) << static_cast<int>(base);
    ++sequence_;
  }
  EXPECT_EQ(launches(), 1u);
}

TEST_P(HostileBlocks, EveryBadFieldIsRejectedByItsNameAndHarmsNothing) {
  std::set<Field> named;
  for (const auto& bad : all_cases()) {
    expect_rejected(bad);
    if (HasFailure()) break;
    named.insert(bad.field);
  }
  EXPECT_EQ(launches(), 0u) << "a kernel ran";
  for (auto field = static_cast<unsigned>(Field::Magic); field <= static_cast<unsigned>(Field::ImageHeaderField);
       ++field) {
    if (HasFailure()) break;
    const auto wanted = static_cast<Field>(field);
    if (wanted == Field::ComputeCorrection) continue;  // ACorrection…
    EXPECT_TRUE(named.contains(wanted)) << "no case for " << wire::name(wanted);
  }
}

TEST_P(HostileBlocks, ACorrectionOutsideProgramMemoryIsRejected) {
  const auto with_correction = [&](const wire::Endpoint& at, Status status) {
    expect_rejected({"correction", Base::Compute,
                     [&](ControlBlock& b) {
                       b.payload.compute.correction = at;
                       b.payload.compute.correction_bytes = 256;
                     },
                     status, Field::ComputeCorrection});
  };
  with_correction(bench_->host(0), Status::BadEndpointKind);
  with_correction(bench_->tensor(0), Status::WrongRegionType);
  with_correction(bench_->program(Workbench::kRegionBytes - 128), Status::OutOfBounds);
  auto old = bench_->program(0);
  ++old.generation;
  with_correction(old, Status::StaleRegion);
}

// An image is data until the card has looked at all of it.
TEST_P(HostileBlocks, EveryBadImageIsRejectedAndNothingOfItRuns) {
  struct BadImage {
    const char* what;
    std::function<void(wire::ImageHeader&)> spoil;
    Status status;
  };
  const BadImage cases[] = {
      {"magic", [](auto& h) { h.magic ^= 1; }, Status::ImageMagic},
      {"version", [](auto& h) { ++h.abi_version; }, Status::ImageVersion},
      {"size", [](auto& h) { h.image_bytes += 128; }, Status::ImageLayout},
      {"text in the header", [](auto& h) { h.text_offset = 0; }, Status::ImageLayout},
      {"text between sticks", [](auto& h) { h.text_offset += 4; }, Status::ImageLayout},
      {"no text", [](auto& h) { h.text_bytes = 0; }, Status::ImageLayout},
      {"text over the end", [](auto& h) { h.text_bytes = h.image_bytes; }, Status::ImageLayout},
      {"text that wraps", [](auto& h) { h.text_bytes = kMax - h.text_offset + 2; }, Status::ImageLayout},
      {"pool behind the end", [](auto& h) { h.pool_offset = h.image_bytes + 128; }, Status::ImageLayout},
      {"pool too large", [](auto& h) { h.pool_bytes = wire::kMaxPoolBytes + 128; }, Status::ImageLayout},
      {"correction entry out of text", [](auto& h) { h.correction_entry = h.text_bytes; }, Status::ImageLayout},
      {"compute entry out of text", [](auto& h) { h.compute_entry = 0x80000000; }, Status::ImageLayout},
      {"odd entry", [](auto& h) { h.compute_entry |= 1; }, Status::ImageLayout},
      {"scratchpad", [](auto& h) { h.scratchpad_bytes = wire::kScratchpadBytes + 1; }, Status::ScratchpadTooLarge},
      {"correction maximum", [](auto& h) { h.max_correction_bytes = wire::kMaxCorrectionBytes + 1; },
       Status::ImageLayout},
      {"reserved", [](auto& h) { h.reserved[39] = 1; }, Status::ImageLayout},
  };
  const auto refuse = [&](const char* what, std::vector<std::byte> image, Status status) {
    bench_->load(kBadImageAt, image);
    const std::uint64_t bytes = image.size();
    expect_rejected({what, Base::Compute,
                     [=](ControlBlock& b) {
                       b.payload.compute.image.offset = kBadImageAt;
                       b.payload.compute.image_bytes = bytes;
                     },
                     status, Field::ImageHeaderField});
  };
  for (const BadImage& bad : cases) {
    auto image = empty_;
    auto& header = *reinterpret_cast<wire::ImageHeader*>(image.data());
    bad.spoil(header);
    header.crc32c = 0;
    header.crc32c = wire::crc32c(0, image.data(), image.size());
    refuse(bad.what, image, bad.status);
  }
  // One flipped bit in each part, without a new checksum.
  for (const std::size_t byte : {std::size_t{12}, sizeof(wire::ImageHeader), empty_.size() - 1}) {
    auto image = empty_;
    image[byte] ^= std::byte{0x20};
    refuse("flipped bit", image, Status::ImageCrc);
  }
  EXPECT_EQ(launches(), 0u) << "a kernel ran";
}

// A correction larger than the image was built for, and one that does not fit the image's metadata.
TEST_P(HostileBlocks, ACorrectionThatDoesNotFitTheImageNeverReachesTheKernel) {
  const auto image = test::kernel_image(*card_, "stray");
  bench_->load(kBadImageAt, image);
  const auto& header = *reinterpret_cast<const wire::ImageHeader*>(image.data());
  const auto launch = [&](std::uint64_t correction_bytes) {
    ControlBlock block = addressed(bench_->compute(kBadImageAt, image.size()));
    block.payload.compute.correction = bench_->program(kCorrectionAt);
    block.payload.compute.correction_bytes = correction_bytes;
    seal(block);
    return send(block);
  };
  auto end = launch(header.max_correction_bytes + wire::kStickBytes);
  EXPECT_EQ(end.outcome, Outcome::Rejected);
  EXPECT_EQ(end.status, Status::CorrectionTooLarge);
  EXPECT_EQ(end.field, Field::ComputeCorrectionBytes) << wire::name(end.field);
  heal();
  EXPECT_EQ(launches(), 0u);

  struct BadCorrection {
    std::function<void(wire::CorrectionHeader&, wire::CorrectionSymbol*)> spoil;
    std::uint64_t bytes;
    std::uint64_t kernel_status;
  };
  const std::uint64_t full = wire::correction_bytes(3);
  const BadCorrection cases[] = {
      {[](auto&, auto*) {}, 128, 0xC0001},
      {[](auto& h, auto*) { h.magic = 0; }, full, 0xC0002},
      {[](auto& h, auto*) { h.symbol_count = 2; }, full, 0xC0003},
      {[](auto&, auto* s) { s[1].kind = wire::SymbolKind::Address; }, full, 0xC0004},
      {[](auto&, auto* s) { s[2].operand = 1; }, full, 0xC0004},
      {[](auto&, auto* s) { s[0].region_id = 6; }, full, 0xC0005},
      {[](auto&, auto* s) { s[0].region_id = wire::kNoRegion; }, full, 0xC0005},
  };
  for (const BadCorrection& bad : cases) {
    SCOPED_TRACE(bad.kernel_status);
    std::vector<std::byte> tensor(full);
    auto& correction = *reinterpret_cast<wire::CorrectionHeader*>(tensor.data());
    auto* symbols = reinterpret_cast<wire::CorrectionSymbol*>(tensor.data() + sizeof correction);
    correction.magic = wire::kCorrectionMagic;
    correction.mode = wire::AddressMode::Vf;
    correction.symbol_count = 3;
    correction.region_count = 1;
    for (auto& region : correction.region) region.region_id = wire::kNoRegion;
    correction.region[bench_->tensor().ordinal].region_id = bench_->tensor().base.region_id;
    symbols[0] = {wire::SymbolKind::Address, 0, bench_->tensor().base.region_id, 0, 0};
    symbols[1] = {wire::SymbolKind::Dimension, 0, 0, 0, 0};
    symbols[2] = {wire::SymbolKind::Dimension, 0, 0, 2, 0};  // a store, should it ever come to that
    bad.spoil(correction, symbols);
    bench_->load(kCorrectionAt, tensor);
    end = launch(bad.bytes);
    EXPECT_EQ(end.outcome, Outcome::Fault);
    EXPECT_EQ(end.status, Status::KernelStatus) << wire::name(end.status);
    EXPECT_EQ(end.fault.argument, bad.kernel_status);
    expect_nothing_written();
    heal();
  }
}

INSTANTIATE_TEST_SUITE_P(WithAndWithoutCrc, HostileBlocks, testing::Bool(),
                         [](const auto& info) { return info.param ? "Crc" : "NoCrc"; });

}  // namespace
}  // namespace flex
