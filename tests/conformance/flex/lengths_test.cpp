// SPDX-License-Identifier: Apache-2.0
// Plans whose programs depend on the lengths of their tensors (tests/support/bundle_plan.cpp): each launch gets the
// program for the memory that it brings. Needs harts that run kernels.
#include <gmock/gmock.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "tests/conformance/flex/flex_runtime.hpp"
#include "tests/support/flex/prepared_plan.hpp"

namespace flex_test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using Addresses = PreparedPlan::Addresses;
using Content = std::vector<std::uint8_t>;

constexpr std::size_t kIndices = 32, kStick = 128, kRow = 2 * kStick;

std::int32_t chosen_row(std::size_t i, std::size_t rows) {
  return static_cast<std::int32_t>((i * 37 + rows - 1) % rows);
}

class FlexLengths : public FlexRuntime {
 protected:
  static std::string directory(const char* name) {
    return std::string(SPYRE_FLEX_PLANS) + "/bundles/" + name + "/spyreCodeDir";
  }
  static PreparedPlan prepared(const char* name) { return {directory(name), allocator(), stream()}; }

  static flex::CompositeAddress holding(const Content& bytes, flex::RuntimeStream& on = stream()) {
    auto memory = tensor(bytes.size());
    send(on, bytes.data(), bytes.size(), memory);
    return memory;
  }
  // Rows from the table's last one on, in steps of 37.
  static Content indices(std::size_t rows) {
    Content bytes(kIndices * 4);
    for (std::size_t i = 0; i < kIndices; ++i) {
      const std::int32_t row = chosen_row(i, rows);
      std::memcpy(&bytes[i * 4], &row, sizeof row);
    }
    return bytes;
  }
  // Stick s of row i of a matrix [32, 128], whose sticks of one column stand together.
  static std::size_t place(std::size_t i, std::size_t s) { return (s * kIndices + i) * kStick; }

  static Content gathered(const PreparedPlan& plan, std::size_t rows, Addresses addresses,
                          flex::RuntimeStream& on = stream()) {
    const auto index = holding(indices(rows), on), table = holding(counted_bytes(rows * kRow), on);
    const auto output = tensor(kIndices * kRow);
    plan.launch(on, {&index, &table, &output}, addresses);
    Content bytes(kIndices * kRow);
    receive(on, bytes.data(), bytes.size(), output);
    on.synchronize();
    return bytes;
  }
  static Content expected_of(std::size_t rows) {
    const Content table = counted_bytes(rows * kRow);
    Content bytes(kIndices * kRow);
    for (std::size_t i = 0; i < kIndices; ++i) {
      for (std::size_t s = 0; s < 2; ++s) {
        std::memcpy(&bytes[place(i, s)], &table[static_cast<std::size_t>(chosen_row(i, rows)) * kRow + s * kStick],
                    kStick);
      }
    }
    return bytes;
  }
};

TEST_F(FlexLengths, AGatherReachesTheRowsOfEachLaunchsTable) {
  const PreparedPlan plan = prepared("gather");
  for (const Addresses addresses : {Addresses::Fast, Addresses::Regular, Addresses::Bound}) {
    for (const std::size_t rows : {40U, 1U, 1000U, 40U}) EXPECT_EQ(gathered(plan, rows, addresses), expected_of(rows));
  }
}

// More than stay on the card for one plan.
TEST_F(FlexLengths, ManyLengthsOfOnePlanFollowEachOther) {
  const PreparedPlan plan = prepared("gather");
  for (int round = 0; round < 2; ++round) {
    for (std::size_t rows = 33; rows < 53; ++rows) {
      ASSERT_EQ(gathered(plan, rows, Addresses::Bound), expected_of(rows)) << rows;
    }
  }
}

TEST_F(FlexLengths, ThreadsLaunchOnePlanForDifferentLengths) {
  const PreparedPlan plan = prepared("gather");
  stream().synchronize();  // the program is there
  std::vector<std::thread> threads;
  for (std::size_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&plan, thread] {
      flex::RuntimeStream& mine = *runtime->createStream(flex::RuntimeStreamPriority::NORMAL);
      for (std::size_t i = 0; i < 24; ++i) {
        const std::size_t rows = 60 + (i * 5 + thread) % 12;
        EXPECT_EQ(gathered(plan, rows, Addresses::Bound, mine), expected_of(rows)) << rows;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();  // bounded: each synchronises and ends
}

TEST_F(FlexLengths, AScatterReachesTheRowsOfEachLaunchsTable) {
  const PreparedPlan plan = prepared("scatter");
  for (const std::size_t rows : {40U, 1000U}) {
    const Content before = counted_bytes(rows * kRow), input = counted_bytes(kIndices * kRow, 9);
    const auto index = holding(indices(rows)), given = holding(input), table = holding(before);
    plan.launch(stream(), {&index, &given, &table}, Addresses::Fast);
    Content expected = before;
    for (std::size_t i = 0; i < kIndices; ++i) {
      for (std::size_t s = 0; s < 2; ++s) {
        std::memcpy(&expected[static_cast<std::size_t>(chosen_row(i, rows)) * kRow + s * kStick], &input[place(i, s)],
                    kStick);
      }
    }
    EXPECT_EQ(content(table), expected);
  }
}

// Four rows of 16 columns have one stick of FP32 each; with 64 columns they have two.
TEST_F(FlexLengths, AConversionEndsWhereItsTensorDoes) {
  const PreparedPlan plan = prepared("narrow");
  for (const std::size_t sticks : {1U, 2U}) {
    std::vector<float> numbers(4 * 32 * sticks);
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i + 1);
    Content bytes(numbers.size() * 4);
    std::memcpy(bytes.data(), numbers.data(), bytes.size());
    const auto input = holding(bytes), output = tensor(4 * kStick);
    plan.launch(stream(), {&input, &output}, Addresses::Fast);
    const Content result = content(output);
    for (std::size_t row = 0; row < 4; ++row) {
      for (std::size_t lane = 0; lane < 64; ++lane) {
        const std::size_t stick = lane % 8 / 4;
        const float number = stick < sticks ? numbers[(stick * 4 + row) * 32 + lane / 8 * 4 + lane % 4] : 0;
        std::uint16_t code;
        std::memcpy(&code, &result[row * kStick + lane * 2], sizeof code);
        ASSERT_EQ(code, deeptools::FloatToFp16Bin(number)) << sticks << ": " << row << ", " << lane;
      }
    }
  }
}

TEST_F(FlexLengths, ThatContradictTheBundleAreRefused) {
  const PreparedPlan gather = prepared("gather"), narrow = prepared("narrow");
  const auto index = holding(indices(1)), row = tensor(kRow - kStick), output = tensor(kIndices * kRow);
  EXPECT_THAT(what_of([&] { gather.launch(stream(), {&index, &row, &output}, Addresses::Bound); }),
              AllOf(HasSubstr("argument 1, which has 128 bytes, and one row of it 256"), HasSubstr("next: ")));
  const auto input = tensor(3 * kStick), converted = tensor(4 * kStick);
  EXPECT_THAT(what_of([&] { narrow.launch(stream(), {&input, &converted}, Addresses::Bound); }),
              HasSubstr("argument 0, which has 384 bytes, and needs 1024"));
  EXPECT_FALSE(runtime->hasStreamError());
  EXPECT_EQ(gathered(gather, 40, Addresses::Fast), expected_of(40));
}

// Every byte of the file is under its checksum.
TEST_F(FlexLengths, ADamagedPlanIsRefusedWhenItIsPrepared) {
  const fs::path copy = fs::temp_directory_path() / ("spyre-damaged-" + std::to_string(::getpid()));
  fs::copy(directory("gather"), copy);
  fs::path binary;
  for (const auto& entry : fs::directory_iterator(copy)) {
    if (entry.path().extension() == ".bin") binary = entry.path();
  }
  std::ifstream in(binary, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  for (const std::size_t at : {std::size_t{130}, bytes.size() / 2, bytes.size() - 1}) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    std::ofstream(binary, std::ios::binary) << damaged;
    EXPECT_THAT(what_of([&] { const PreparedPlan plan(copy, allocator(), stream()); }),
                AllOf(HasSubstr("has another checksum than it says"), HasSubstr("next: write the binary again")));
  }
  fs::remove_all(copy);
  EXPECT_FALSE(runtime->hasStreamError());
}

}  // namespace
}  // namespace flex_test
