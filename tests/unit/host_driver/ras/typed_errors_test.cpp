// SPDX-License-Identifier: Apache-2.0
// No untyped exception leaves the driver, and every error says who, how and what next.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "host_driver/discovery/attach.hpp"
#include "host_driver/discovery/function_choice.hpp"
#include "host_driver/runtime/job.hpp"
#include "host_driver/runtime/runtime.hpp"
#include "host_driver/tensor/golden/golden.hpp"
#include "host_driver/tensor/tensor_layout.hpp"
#include "tests/unit/host_driver/device/native_card.hpp"

namespace svp {
namespace {

void expect_complete(const ErrorInfo& error) {
  EXPECT_FALSE(error.source.empty()) << describe(error);
  EXPECT_FALSE(error.message.empty()) << describe(error);
  EXPECT_FALSE(error.next_step.empty()) << describe(error);
  EXPECT_NE(error.message.back(), '.') << describe(error);
  EXPECT_NE(error.next_step.back(), '.') << describe(error);
  EXPECT_NE(error.outcome, wire::Outcome::Ok) << describe(error);
}

void expect_typed(const char* what, const std::function<void()>& call) {
  SCOPED_TRACE(what);
  try {
    call();
    ADD_FAILURE() << "was accepted";
  } catch (const Error& error) {
    expect_complete(error.info());
  } catch (const std::exception& error) {
    ADD_FAILURE() << "an untyped " << typeid(error).name() << ": " << error.what();
  } catch (...) {
    ADD_FAILURE() << "no exception type at all";
  }
}

class TypedErrors : public testing::Test {
 protected:
  static RuntimeOptions small() {
    RuntimeOptions options;
    options.allocator.region_bytes = {64 * wire::kMiB, 16 * wire::kMiB};
    return options;
  }

  test::NativeCard card_{{.window_bytes = 32 * wire::kMiB}};
};

TEST_F(TypedErrors, OfTensorsAndLayouts) {
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  const std::vector<std::uint16_t> two(2);
  std::vector<std::uint16_t> out(2);
  expect_typed("golden matmul", [&] { golden::matmul_dl16(two, two, out, 2, 3, 2); });
  expect_typed("shape of rank 100", [&] { (void)Shape(std::vector<std::int64_t>(100, 1)); });
  expect_typed("more than 2^63 elements",
               [&] { (void)SpyreTensorLayout::of({DataType::Float16, {kMost, kMost}, {}}); });
  expect_typed("a negative size", [&] { (void)SpyreTensorLayout::of({DataType::Float16, {-1}, {}}); });
}

TEST_F(TypedErrors, OfAllocatorStreamsAndJobs) {
  Runtime runtime(card_.attach(), small());
  FlexStream& stream = runtime.default_stream();
  FlexAllocator& allocator = runtime.allocator();
  expect_typed("an allocation that no card has", [&] { (void)allocator.allocate(std::uint64_t{1} << 50); });
  expect_typed("a size that overflows", [&] { (void)allocator.allocate(std::numeric_limits<std::uint64_t>::max()); });
  const auto index = allocator.allocate(4096);
  allocator.deallocate(index);
  expect_typed("freed twice", [&] { allocator.deallocate(index); });
  expect_typed("a stream that does not exist", [&] { (void)runtime.stream(4711); });
  expect_typed("a job on freed memory", [&] { stream.Launch(Job::fill(index, 8, 0), {}); });
  expect_typed("arguments of a transfer", [&] {
    const auto memory = allocator.allocate(4096);
    const std::array<Argument, 1> arguments{};
    stream.Launch(Job::fill(memory, 8, 0), arguments);
  });
}

TEST_F(TypedErrors, OfADeadCard) {
  Runtime runtime(card_.attach(), small());
  const auto memory = runtime.allocator().allocate(4096);
  card_.die();
  expect_typed("launch or synchronize", [&] {
    runtime.default_stream().Launch(Job::fill(memory, 8, 0), {});
    runtime.default_stream().Synchronize();
  });
  expect_typed("reset", [&] { runtime.default_stream().Reset(); });
  expect_typed("a new stream", [&] {
    for (int i = 0; i < 64; ++i) (void)runtime.next_stream(StreamPriority::High);
  });
}

TEST_F(TypedErrors, OfCardsThatDoNotExist) {
  const auto nobody = attach("no-such-card", FunctionChoice{}, {}, {});
  ASSERT_FALSE(nobody);
  expect_complete(nobody.error());
  const auto choice = parse_function_choice("PF7x");
  ASSERT_FALSE(choice);
  expect_complete(choice.error());
}

}  // namespace
}  // namespace svp
