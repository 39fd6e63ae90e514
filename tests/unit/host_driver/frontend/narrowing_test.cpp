// SPDX-License-Identifier: Apache-2.0
// A program of its own: what is told once per process can be counted once per process.
#include <gtest/gtest.h>

#include <vector>

#include "host_driver/frontend/spyre_stream.hpp"
#include "host_driver/frontend/tensor_copy.hpp"
#include "host_driver/ras/log.hpp"
#include "tests/unit/host_driver/device/native_card.hpp"

namespace svp {
namespace {

RuntimeOptions small_memory() {
  RuntimeOptions options;
  options.allocator.region_bytes = {64 * wire::kMiB};
  options.staging.chunk_bytes = wire::kMiB;
  return options;
}

TEST(Narrowing, OfInt64IsToldByTheFirstCopyAndByNoOther) {
  test::NativeCard card{{.window_bytes = 16 * wire::kMiB}};
  Runtime runtime{card.attach(), small_memory()};
  SpyreAllocator allocator{runtime};
  SpyreStream stream{runtime.default_stream()};
  std::vector<std::size_t> told;  // after each copy
  std::size_t records = 0;
  ras::Log::process().set_sink([&records](const ras::Record& record) {
    if (record.error.outcome == wire::Outcome::Ok && record.error.source == "dtype") ++records;
  });
  const auto there_and_back = [&](DataType type, auto value) {
    const HostShape shape = HostShape::contiguous(type, {1});
    const SpyreTensor tensor = to_device(runtime, allocator, stream, {shape, std::as_bytes(std::span(&value, 1))});
    auto found = value;
    to_host(runtime, stream, tensor, {shape, std::as_writable_bytes(std::span(&found, 1))});
    told.push_back(records);
    return found;
  };
  EXPECT_EQ(there_and_back(DataType::Int32, std::int32_t{-5}), -5);
  EXPECT_EQ(there_and_back(DataType::Int64, (std::int64_t{5} << 32) + 7), INT32_MAX);
  EXPECT_EQ(there_and_back(DataType::Int64, std::int64_t{-1}), -1);
  ras::Log::process().set_sink({});
  EXPECT_EQ(told, (std::vector<std::size_t>{0, 1, 1}));
}

}  // namespace
}  // namespace svp
