// SPDX-License-Identifier: Apache-2.0
// P6: conversion between host layout and device layout, with the number format changed in the same pass, against
// memcpy of the same bytes in the same run. Bytes are those read plus those written, halved, on both sides: for equal
// element widths that is the size of the tensor, for fp32 ↔ DL16 the mean of both sizes. The data are checked.
//
//   layout_bench --benchmark_repetitions=5 --benchmark_report_aggregates_only=true
//
// Strided: the general executor (copy_strided) on the loops of a view that leaves out the first row and the first stick
// of each row, so that its runs are sticks.
//
// Goal: every Stickify and Unstickify ≥ 0.6 × the Memcpy of the nearest size, every Strided ≥ 0.5 ×.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "host_driver/tensor/element_format.hpp"
#include "host_driver/tensor/stickify.hpp"
#include "host_driver/tensor/strided_copy.hpp"
#include "host_driver/tensor/strided_loops.hpp"

namespace svp {
namespace {

// As pinned buffers are: aligned to a page, touched before.
class Buffer {
 public:
  explicit Buffer(std::size_t bytes)
      : bytes_(bytes), data_(static_cast<std::byte*>(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096))) {
    std::memset(data_, 1, bytes);
  }
  ~Buffer() { std::free(data_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  std::span<std::byte> bytes() const { return {data_, bytes_}; }

 private:
  std::size_t bytes_;
  std::byte* data_;
};

void Memcpy(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const Buffer from(bytes);
  const Buffer to(bytes);
  for ([[maybe_unused]] auto _ : state) {
    std::memcpy(to.bytes().data(), from.bytes().data(), bytes);
    benchmark::DoNotOptimize(to.bytes().data());  // both escape: the copy can not be optimised away
    benchmark::DoNotOptimize(from.bytes().data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

struct Tensor {
  HostShape shape;
  SpyreTensorLayout layout;
  Buffer host;
  Buffer device;

  Tensor(HostShape s, DeviceType device_type)
      : shape(std::move(s)),
        layout(SpyreTensorLayout::of(shape, std::nullopt, device_type)),
        host(shape.bytes_spanned()),
        device(layout.device_bytes()) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    if (shape.dtype == DataType::Bool) {
      for (std::byte& value : host.bytes()) value = static_cast<std::byte>(random() % 2);
    } else if (shape.dtype == DataType::Int64) {
      for (std::size_t i = 0; i < host.bytes().size(); i += 8) {
        const auto value = static_cast<std::int64_t>(static_cast<std::int32_t>(random()));
        std::memcpy(host.bytes().data() + i, &value, 8);
      }
    } else if (shape.dtype == DataType::Float32) {
      for (std::size_t i = 0; i < host.bytes().size(); i += 4) {
        const float value = normal(random);
        std::memcpy(host.bytes().data() + i, &value, 4);
      }
    } else {
      std::vector<std::uint16_t> codes(host.bytes().size() / 2);
      std::vector<float> values(codes.size());
      for (float& value : values) value = normal(random);
      convert_to_device(DataType::Float32, DeviceType::Dl16, values.data(), codes.data(), codes.size());
      convert_to_host(DeviceType::Dl16, DataType::Float16, codes.data(), host.bytes().data(), codes.size());
    }
    stickify(shape, host.bytes(), layout, device.bytes());
  }

  std::int64_t mean_bytes() const { return static_cast<std::int64_t>(host.bytes().size() + device.bytes().size()) / 2; }

  // Element (row, column) of a sample must be the flat conversion of the host's element, where the layout puts it.
  bool correct(std::size_t first_row = 0, std::size_t first_column = 0) const {
    const auto columns = static_cast<std::size_t>(shape.size.back());
    const auto rows = static_cast<std::size_t>(shape.element_count()) / columns;
    const std::size_t item = item_bytes(layout.device_dtype);
    const std::size_t eps = 128 / item;
    std::mt19937 random(2);
    for (int i = 0; i < 1000 && shape.size.size() == 2; ++i) {
      const std::size_t row = first_row + random() % (rows - first_row);
      const std::size_t column = first_column + random() % (columns - first_column);
      std::uint32_t expected = 0;
      conversion(*format_of(shape.dtype),
                 format_of(layout.device_dtype))({.src = host.bytes().data(),
                                                  .src_first = static_cast<std::int64_t>(row * columns + column),
                                                  .src_stride = 1,
                                                  .dst = reinterpret_cast<std::byte*>(&expected),
                                                  .dst_first = 0,
                                                  .dst_stride = 1,
                                                  .count = 1});
      const std::size_t stick = column / eps * rows + row;
      if (std::memcmp(&expected, device.bytes().data() + stick * 128 + column % eps * item, item) != 0) return false;
    }
    return true;
  }

  // From this row and column on the host has what it had before.
  bool same_on_host(std::span<const std::byte> before, std::size_t first_row, std::size_t first_column) const {
    const auto columns = static_cast<std::size_t>(shape.size.back());
    const std::size_t item = item_bytes(shape.dtype);
    for (std::size_t row = first_row; row < static_cast<std::size_t>(shape.size.front()); ++row) {
      const std::size_t at = (row * columns + first_column) * item;
      if (std::memcmp(before.data() + at, host.bytes().data() + at, (columns - first_column) * item) != 0) return false;
    }
    return true;
  }
};

void run_stickify(benchmark::State& state, const HostShape& shape, DeviceType device_type) {
  const Tensor tensor(shape, device_type);
  for ([[maybe_unused]] auto _ : state) {
    stickify(tensor.shape, tensor.host.bytes(), tensor.layout, tensor.device.bytes());
    benchmark::ClobberMemory();
  }
  if (!tensor.correct()) state.SkipWithError("wrong data");
  state.SetBytesProcessed(state.iterations() * tensor.mean_bytes());
}

void run_unstickify(benchmark::State& state, const HostShape& shape, DeviceType device_type) {
  const Tensor tensor(shape, device_type);
  for ([[maybe_unused]] auto _ : state) {
    unstickify(tensor.layout, tensor.device.bytes(), tensor.shape, tensor.host.bytes());
    benchmark::ClobberMemory();
  }
  if (!tensor.correct()) state.SkipWithError("wrong data");
  state.SetBytesProcessed(state.iterations() * tensor.mean_bytes());
}

void run_strided(benchmark::State& state, const HostShape& shape, DeviceType device_type, bool to_device) {
  const Tensor tensor(shape, device_type);
  const std::int64_t eps = tensor.layout.elements_per_stick();
  const DeviceView view{
      .size = {shape.size[0] - 1, shape.size[1] - eps}, .stride = shape.stride, .offset = shape.stride[0] + eps};
  const std::span<std::byte> host =
      tensor.host.bytes().subspan(static_cast<std::size_t>(view.offset) * item_bytes(shape.dtype));
  const auto nests = describe_transfer(tensor.layout, view, shape.stride,
                                       to_device ? TransferDirection::ToDevice : TransferDirection::FromDevice);
  const ElementFormat on_host = *format_of(shape.dtype);
  const ElementFormat on_card = format_of(device_type);
  if (to_device) std::memset(tensor.device.bytes().data(), 0, tensor.device.bytes().size());
  if (!to_device) unstickify(tensor.layout, tensor.device.bytes(), shape, tensor.host.bytes());  // what is expected
  const std::vector<std::byte> before(tensor.host.bytes().begin(), tensor.host.bytes().end());
  if (!to_device) std::memset(host.data(), 0, host.size());
  for ([[maybe_unused]] auto _ : state) {
    if (to_device) {
      copy_strided(nests, on_host, host, on_card, tensor.device.bytes());
    } else {
      copy_strided(nests, on_card, tensor.device.bytes(), on_host, host);
    }
    benchmark::ClobberMemory();
  }
  if (!(to_device ? tensor.correct(1, eps) : tensor.same_on_host(before, 1, eps))) state.SkipWithError("wrong data");
  const std::int64_t elements = view.size[0] * view.size[1];
  state.SetBytesProcessed(state.iterations() * elements *
                          static_cast<std::int64_t>(item_bytes(shape.dtype) + item_bytes(device_type)) / 2);
}

void register_all() {
  for (const std::int64_t bytes : {128 << 10, 2 << 20, 8 << 20, 64 << 20, 128 << 20}) {
    benchmark::RegisterBenchmark("Memcpy", Memcpy)->Arg(bytes);
  }
  const std::vector<std::vector<std::int64_t>> sizes{{64, 1024},   {1024, 1024}, {4096, 1024},   {1024, 4096},
                                                     {8192, 4096}, {1000, 1000}, {64, 16, 1024}, {256, 32768}};
  const struct {
    const char* name;
    DataType host;
    DeviceType device;
  } formats[] = {{"fp16_dl16", DataType::Float16, DeviceType::Dl16},
                 {"fp32_dl16", DataType::Float32, DeviceType::Dl16},
                 {"fp32_fp32", DataType::Float32, DeviceType::Fp32}};
  for (const auto& format : formats) {
    for (const auto& size : sizes) {
      std::string name = format.name;
      for (const std::int64_t extent : size) name += (name == format.name ? "/" : "x") + std::to_string(extent);
      const HostShape shape = HostShape::contiguous(format.host, size);
      const DeviceType device = format.device;
      benchmark::RegisterBenchmark(("Stickify/" + name).c_str(),
                                   [=](benchmark::State& state) { run_stickify(state, shape, device); });
      benchmark::RegisterBenchmark(("Unstickify/" + name).c_str(),
                                   [=](benchmark::State& state) { run_unstickify(state, shape, device); });
    }
  }
  // About 8 MiB on the mean of both sides, as the Memcpy that they are held against.
  const struct {
    const char* name;
    DataType host;
    DeviceType device;
    std::int64_t columns;
  } strided[] = {{"fp16_dl16", DataType::Float16, DeviceType::Dl16, 1024 + 64},
                 {"fp32_dl16", DataType::Float32, DeviceType::Dl16, 704 + 64},
                 {"fp32_fp32", DataType::Float32, DeviceType::Fp32, 512 + 32},
                 {"int64_int32", DataType::Int64, DeviceType::Int32, 352 + 32},
                 {"bool_dl16", DataType::Bool, DeviceType::Dl16, 1344 + 64}};
  for (const auto& format : strided) {
    for (const bool to_device : {true, false}) {
      const HostShape shape = HostShape::contiguous(format.host, {4097, format.columns});
      const DeviceType device = format.device;
      benchmark::RegisterBenchmark(
          (std::string(to_device ? "StridedToSticks/" : "StridedToHost/") + format.name).c_str(),
          [=](benchmark::State& state) { run_strided(state, shape, device, to_device); });
    }
  }
}

}  // namespace
}  // namespace svp

int main(int argc, char** argv) {
  svp::register_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
