// SPDX-License-Identifier: Apache-2.0
// add and copy against the golden model, bit for bit; and what the small test kernels do.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "host_driver/tensor/golden/golden.hpp"
#include "shared/dl16.hpp"
#include "tests/device/kernels/kernel_fixture.hpp"
#include "tests/device/kernels/stick_tensor.hpp"

namespace kernel_test {
namespace {

using wire::Dl16;
using Codes = std::vector<Dl16>;

constexpr std::uint64_t kA = BareCard::kTensors;
constexpr std::uint64_t kB = kA + 64 * wire::kMiB;
constexpr std::uint64_t kC = kB + 64 * wire::kMiB;

class Elementwise : public KernelTest {
 protected:
  static Codes sum(const Codes& a, const Codes& b, std::size_t rows, std::size_t columns, unsigned cores = 1) {
    const std::size_t count = stick_elements(rows, columns);
    to_sticks(a, rows, columns, card().tensor<Dl16>(kA, count));
    to_sticks(b, rows, columns, card().tensor<Dl16>(kB, count));
    const std::uint64_t stride = rows * wire::kStickBytes;
    constexpr std::uint64_t kRow = wire::kStickBytes;
    const wire::CorrectionSymbol symbols[] = {BareCard::address(0, kA),     BareCard::stride(0, stride),
                                              BareCard::stride(0, kRow),    BareCard::address(1, kB),
                                              BareCard::stride(1, stride),  BareCard::stride(1, kRow),
                                              BareCard::address(2, kC),     BareCard::stride(2, stride),
                                              BareCard::dimension(0, rows), BareCard::dimension(0, columns)};
    expect_success(run("add", symbols, cores));
    return from_sticks(card().tensor<Dl16>(kC, count), rows, columns);
  }

  static void expect_golden(const Codes& a, const Codes& b, std::size_t rows, std::size_t columns, unsigned cores = 1) {
    Codes expected(a.size());
    svp::golden::add_dl16(a, b, expected);
    const Codes c = sum(a, b, rows, columns, cores);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < c.size(); ++i) {
      if (c[i] == expected[i] || ++wrong > 5) continue;
      ADD_FAILURE() << std::hex << "0x" << a[i] << " + 0x" << b[i] << " is 0x" << c[i] << ", golden 0x" << expected[i];
    }
    EXPECT_EQ(wrong, 0u);
  }

  std::mt19937_64 random_{20261121};
};

TEST_F(Elementwise, AddOfEveryCodeToChosenCodesEqualsGolden) {
  const Dl16 chosen[] = {0x0000, 0x8000, 0x0001, 0x8001, 0x7FFD, 0xFFFD, 0x7FFE, 0xFFFE,
                         0x7FFF, 0xFFFF, 0x3E00, 0xBE00, 0x3E01, 0xBFFF, 0x4124, 0x0200,
                         0x8200, 0x01FF, 0x7E00, 0xFC00, 0x2200, 0x0E00, 0x5E00, 0xC1AB};
  for (const Dl16 other : chosen) {
    Codes a(65536);
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<Dl16>(i);
    SCOPED_TRACE(other);
    expect_golden(a, Codes(a.size(), other), 1024, 64);
    expect_golden(Codes(a.size(), other), a, 64, 1024);
  }
}

TEST_F(Elementwise, AddOfRandomCodesEqualsGolden) {
  Codes a(1024 * 2048);
  Codes b(a.size());
  for (Dl16& code : a) code = static_cast<Dl16>(random_());
  for (Dl16& code : b) code = static_cast<Dl16>(random_());
  expect_golden(a, b, 1024, 2048);
}

TEST_F(Elementwise, AddOfNeighbouringExponentsEqualsGolden) {
  // Cancellation, ties and jammed shifts live where exponents are at most 16 apart.
  Codes a(1024 * 2048);
  Codes b(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto exponent = random_() % 64;
    const auto other = static_cast<std::uint64_t>(exponent + random_() % 17) % 64;
    a[i] = static_cast<Dl16>((random_() & 0x81FF) | exponent << 9);
    b[i] = static_cast<Dl16>((random_() & 0x81FF) | other << 9);
    if (i % 3 == 0) b[i] = static_cast<Dl16>(b[i] & ~((1u << (random_() % 10)) - 1));  // many trailing zeros: ties
  }
  expect_golden(a, b, 1024, 2048);
}

TEST_F(Elementwise, AddOfAnyShapeAndNumberOfCoresEqualsGolden) {
  for (const auto& [rows, columns, cores] : {std::tuple{1, 1, 1u}, {3, 65, 2u}, {17, 200, 3u}, {100, 640, 33u}}) {
    Codes a(static_cast<std::size_t>(rows * columns));
    Codes b(a.size());
    for (Dl16& code : a) code = static_cast<Dl16>(random_());
    for (Dl16& code : b) code = static_cast<Dl16>(random_());
    expect_golden(a, b, static_cast<std::size_t>(rows), static_cast<std::size_t>(columns), cores);
  }
}

TEST_F(Elementwise, CopyOfATileOfRowsLeavesTheRestAlone) {
  const std::size_t rows = 37;
  const std::size_t tile = 13;
  const std::size_t columns = 3;
  const auto from = card().tensor<Dl16>(kA, rows * columns * kLanes);
  const auto to = card().tensor<Dl16>(kC, rows * columns * kLanes);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<Dl16>(random_());
  std::fill(to.begin(), to.end(), Dl16{0x1111});
  const std::uint64_t shift = 11 * wire::kStickBytes;
  const std::uint64_t stride = rows * wire::kStickBytes;
  const wire::CorrectionSymbol symbols[] = {BareCard::address(0, kA + shift), BareCard::stride(0, stride),
                                            BareCard::address(1, kC + shift), BareCard::stride(1, stride),
                                            BareCard::dimension(0, tile),     BareCard::dimension(0, columns * kLanes)};
  expect_success(run("copy", symbols, 2));
  for (std::size_t i = 0; i < to.size(); ++i) {
    const std::size_t row = i / kLanes % rows;
    ASSERT_EQ(to[i], row >= 11 && row < 11 + tile ? from[i] : 0x1111) << "element " << i;
  }
}

class SmallKernels : public KernelTest {
 protected:
  enum What : std::uint64_t { kNothing, kLoad, kStore, kJump, kIllegal, kBadCall, kBreakpoint, kStatus, kLastCoreLoad };
  static RunResult stray(What what, std::uint64_t offset, unsigned cores = 1) {
    const wire::CorrectionSymbol symbols[] = {BareCard::address(0, 0), BareCard::dimension(0, offset),
                                              BareCard::dimension(0, what)};
    return run("stray", symbols, cores);
  }
  // As `offset`: an absolute virtual address, by wrapping around.
  static std::uint64_t absolute(std::uint64_t address) { return address - wire::region_window(0); }

  enum Cause : std::uint64_t {
    kIllegalInstruction = 2,
    kBreak = 3,
    kCall = 8,
    kFetch = 12,
    kLoadPage = 13,
    kStorePage = 15
  };
};

TEST_F(SmallKernels, EmptyEntersAndExits) { expect_success(run("empty", {})); }

TEST_F(SmallKernels, StrayAccessesFaultAtTheirAddress) {
  const std::uint64_t nowhere = 0x123456780;
  const RunResult load = stray(kLoad, absolute(nowhere));
  EXPECT_EQ(load.cause, kLoadPage);
  EXPECT_EQ(load.value, nowhere);
  EXPECT_EQ(stray(kStore, absolute(nowhere)).cause, kStorePage);
  const RunResult jump = stray(kJump, absolute(nowhere));
  EXPECT_EQ(jump.cause, kFetch);
  EXPECT_EQ(jump.pc, nowhere);
  EXPECT_EQ(stray(kIllegal, 0).cause, kIllegalInstruction);
  EXPECT_EQ(stray(kBreakpoint, 0).cause, kBreak);
  const RunResult call = stray(kBadCall, 0);
  EXPECT_EQ(call.cause, kCall);
  EXPECT_FALSE(call.exited);
}

TEST_F(SmallKernels, StrayCanAlsoBehave) {
  expect_success(stray(kNothing, 0));
  expect_success(stray(kLoad, BareCard::kTensors));
  const RunResult status = stray(kStatus, absolute(77));
  EXPECT_TRUE(status.exited);
  EXPECT_EQ(status.status, 77u);
  const RunResult last = stray(kLastCoreLoad, absolute(0), 3);
  EXPECT_EQ(last.cause, kLoadPage);
  EXPECT_EQ(last.barriers, 1u);
}

class Correction : public KernelTest {
 protected:
  static constexpr std::uint64_t kTooShort = 0xC0001;
  static constexpr std::uint64_t kSymbolCount = 0xC0003;
  static constexpr std::uint64_t kSymbolKind = 0xC0004;
  static constexpr std::uint64_t kUnknownRegion = 0xC0005;
};

TEST_F(Correction, SymbolsThatDoNotFitTheImageEndTheLaunch) {
  const wire::CorrectionSymbol address = BareCard::address(0, 0);
  const wire::CorrectionSymbol number = BareCard::dimension(0, 0);
  EXPECT_EQ(run("stray", std::vector{address, number}).status, kSymbolCount);
  EXPECT_EQ(run("stray", std::vector{address, number, number, number}).status, kSymbolCount);
  EXPECT_EQ(run("stray", std::vector{number, number, number}).status, kSymbolKind);
  EXPECT_EQ(run("stray", std::vector{BareCard::address(1, 0), number, number}).status, kSymbolKind);
  wire::CorrectionSymbol elsewhere = address;
  elsewhere.region_id = 5;
  EXPECT_EQ(run("stray", std::vector{elsewhere, number, number}).status, kUnknownRegion);
  elsewhere.region_id = wire::kNoRegion;
  EXPECT_EQ(run("stray", std::vector{elsewhere, number, number}).status, kUnknownRegion);
  EXPECT_EQ(run("stray", {}).status, kTooShort);
}

}  // namespace
}  // namespace kernel_test
