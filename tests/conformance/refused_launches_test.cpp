// SPDX-License-Identifier: Apache-2.0
// Launches, images and correction tensors that are wrong (scenarios F6 to F11, F32): each is refused with the name of
// its field, and nothing of it runs.
#include <cstring>
#include <set>

#include "shared/crc32c.hpp"
#include "tests/conformance/kernel_provider.hpp"
#include "tests/conformance/refused_blocks.hpp"

namespace svp::conformance {
namespace {

using test::Workbench;
using wire::ControlBlock;
using wire::Field;
using wire::Outcome;
using wire::Status;

constexpr std::uint64_t kMax = ~std::uint64_t{0};
constexpr std::uint64_t kImageAt = 64 * wire::kKiB;  // in the Program region: a good one
constexpr std::uint64_t kBadImageAt = 256 * wire::kKiB;
constexpr std::uint64_t kCorrectionAt = 512 * wire::kKiB;

class RefusedLaunches : public RefusedBlocks {
 protected:
  void SetUp() override {
    RefusedBlocks::SetUp();
    if (HasFatalFailure()) return;
    empty_ = kernel_provider().kernel_image("empty");
    bench_->load(kImageAt, empty_);
    // Loading used the end of host memory only: the canaries at its start are as they were.
  }

  ControlBlock good(Base base) const override {
    if (base != Base::Compute) return RefusedBlocks::good(base);
    ControlBlock block = bench_->compute(kImageAt, empty_.size(), 3);
    block.payload.compute.segments[3] = {
        bench_->tensor().base.region_id, 0, kBytes, bench_->tensor().generation, wire::kSegmentRead, {}};
    return block;
  }

  std::vector<std::byte> empty_;
};

std::vector<BadField> compute_cases() {
  std::vector<BadField> cases;
  add_header_cases(cases, Base::Compute);
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

TEST_P(RefusedLaunches, TheUnspoiltLaunchIsGood) {
  ControlBlock block = addressed(good(Base::Compute));
  seal(block);
  EXPECT_EQ(send(block).outcome, Outcome::Ok);
  ++sequence_;
  EXPECT_EQ(launches(), 1u);
}

TEST_P(RefusedLaunches, EveryBadFieldIsRejectedByItsNameAndNoKernelRuns) {
  std::set<Field> named;
  for (const auto& bad : compute_cases()) {
    expect_rejected(bad);
    if (HasFailure()) break;
    named.insert(bad.field);
  }
  EXPECT_EQ(launches(), 0u) << "a kernel ran";
  for (auto field = static_cast<unsigned>(Field::ComputeImage); field <= static_cast<unsigned>(Field::ImageHeaderField);
       ++field) {
    if (HasFailure()) break;
    const auto wanted = static_cast<Field>(field);
    if (wanted == Field::ComputeCorrection) continue;  // ACorrection…
    EXPECT_TRUE(named.contains(wanted)) << "no case for " << wire::name(wanted);
  }
  EXPECT_TRUE(HasFailure() || named.contains(Field::Budget));
}

TEST_P(RefusedLaunches, ACorrectionOutsideProgramMemoryIsRejected) {
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
TEST_P(RefusedLaunches, EveryBadImageIsRejectedAndNothingOfItRuns) {
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
TEST_P(RefusedLaunches, ACorrectionThatDoesNotFitTheImageNeverReachesTheKernel) {
  const auto image = kernel_provider().kernel_image("stray");
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
    correction.mode = provider().kind() == wire::FunctionKind::Virtual ? wire::AddressMode::Vf : wire::AddressMode::Pf;
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

INSTANTIATE_TEST_SUITE_P(WithAndWithoutCrc, RefusedLaunches, testing::Bool(),
                         [](const auto& info) { return info.param ? "Crc" : "NoCrc"; });

}  // namespace
}  // namespace svp::conformance
