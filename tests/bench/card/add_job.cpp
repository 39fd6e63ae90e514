// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/card/add_job.hpp"

#include <cstring>
#include <random>

#include "host_driver/tensor/golden/golden.hpp"
#include "host_driver/tensor/stickify.hpp"
#include "shared/dl16.hpp"
#include "tests/bench/card/measurement_error.hpp"

namespace bench {

namespace {

constexpr std::uint64_t kWiped = 0x5A5A5A5A5A5A5A5A;

std::vector<std::uint16_t> random_dl16(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-8, 8);
  std::vector<std::uint16_t> values(count);
  for (auto& value : values) value = wire::dl16_from_fp32(uniform(random));
  return values;
}

svp::SpyreTensor upload(svp::Context& card, std::int64_t rows, const std::vector<std::uint16_t>& values) {
  std::vector<std::uint16_t> half(values.size());
  svp::convert_to_host(svp::DeviceType::Dl16, svp::DataType::Float16, values.data(), half.data(), half.size());
  const auto shape = svp::HostShape::contiguous(svp::DataType::Float16, {rows, AddJob::kColumns});
  return card.to_device({shape, std::as_bytes(std::span(half))});
}

}  // namespace

AddJob::AddJob(svp::Context& card, std::int64_t rows) : card_(card) {
  const auto count = static_cast<std::size_t>(rows * kColumns);
  const auto a = random_dl16(count, 1);
  const auto b = random_dl16(count, 2);
  expected_.resize(count);
  svp::golden::add_dl16(a, b, expected_);
  result_ = card.host_memory().allocate(count * sizeof(std::uint16_t));
  tensors_ = {upload(card, rows, a), upload(card, rows, b), card.empty(svp::DataType::Float16, {rows, kColumns})};
  const auto kernel = card.kernel("add");
  svp::DimensionExtents extents;
  const auto& names = kernel->metadata().dimensions;
  for (std::size_t d = 0; d < names.size(); ++d) extents[names[d]] = d == 0 ? rows : kColumns;
  plan_.add(svp::Job(svp::CompiledKernel(kernel, extents)));
  card.load(plan_);
  for (std::size_t i = 0; i < tensors_.size(); ++i) arguments_[i] = tensors_[i].argument();
}

void AddJob::wipe() {
  auto& stream = card_.default_stream().flex_stream();
  stream.Launch(svp::Job::fill(arguments_[2].allocation, result_.size(), kWiped), {});
  stream.Synchronize();
}

void AddJob::check() {
  std::memset(result_.data(), 0, result_.size());
  auto& stream = card_.default_stream().flex_stream();
  stream.Launch(svp::Job::from_device(result_.data(), arguments_[2].allocation, result_.size()), {});
  stream.Synchronize();
  require(std::memcmp(result_.data(), expected_.data(), result_.size()) == 0,
          "the launched kernel's result is not the golden model's");
}

}  // namespace bench
