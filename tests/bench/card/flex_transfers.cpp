// SPDX-License-Identifier: Apache-2.0
// P14, transfers: libflex's H2D and D2H with conversion info, as torch-spyre writes it for a matrix, against
// Context::copy of the same tensor on the same card, and against the conversion alone (stickify, as in P6).
#include <fmt/format.h>

#include <cstring>
#include <random>
#include <utility>

#include "host_driver/tensor/stickify.hpp"
#include "tests/bench/card/flex_device.hpp"
#include "tests/bench/card/placement.hpp"
#include "tests/bench/card/session.hpp"
#include "tests/bench/card/statistics.hpp"
#include "tests/support/flex/launches.hpp"

namespace bench {

namespace {

using svp::DataType;

struct Matrix {
  const char* name;
  DataType dtype;
  DataFormats format;
  std::int64_t rows;
  std::int64_t columns;
};
constexpr Matrix kMatrices[] = {{"fp16, 2048x2048", DataType::Float16, DataFormats::IEEE_FP16, 2048, 2048},
                                {"fp16, 512x240", DataType::Float16, DataFormats::IEEE_FP16, 512, 240},
                                {"fp32, 2048x2048", DataType::Float32, DataFormats::IEEE_FP32, 2048, 2048}};
constexpr std::int64_t kStick = 64;  // elements of DL16

// Full sticks, then the elements of the last column of sticks that there are.
std::shared_ptr<data_conversion_info> conversion_of(const Matrix& matrix, bool to_device) {
  auto info = std::make_shared<data_conversion_info>();
  info->isHostToSen_ = to_device;
  info->dataformat_src_ = to_device ? matrix.format : DataFormats::SEN169_FP16;
  info->dataformat_dst_ = to_device ? DataFormats::SEN169_FP16 : matrix.format;
  const std::int64_t full = matrix.columns / kStick, rest = matrix.columns % kStick;
  const auto add = [&](std::int64_t lanes, std::int64_t sticks, std::int64_t first) {
    data_conversion_stride_info nest{{lanes, matrix.rows, sticks},
                                     {1, matrix.columns, kStick},
                                     {1, kStick, matrix.rows * kStick},
                                     first * kStick,
                                     first * matrix.rows * kStick};
    if (!to_device) {
      std::swap(nest.stride_src_, nest.stride_dst_);
      std::swap(nest.offset_src_, nest.offset_dst_);
    }
    info->dcsi_.push_back(nest);
  };
  add(kStick, full, 0);
  if (rest != 0) add(rest, 1, full);
  return info;
}

class FlexTransferBench {
 public:
  FlexTransferBench(Session& session, const Matrix& matrix)
      : session_(session),
        card_(session.card()),
        matrix_(matrix),
        shape_(svp::HostShape::contiguous(matrix.dtype, {matrix.rows, matrix.columns})),
        tensor_(card_.empty(matrix.dtype, {matrix.rows, matrix.columns}, svp::DeviceType::Dl16)),
        values_(shape_.bytes_spanned()),
        back_(values_.size()),
        sticks_(tensor_.layout().device_bytes()) {
    flex::initializeRuntime(&runtime_, 0);
    stream_ = runtime_->getDefaultStream();
    memory_ = runtime_->getAllocator()->allocate(sticks_.size(), flex_test::tensor_memory());
  }

  void measure() {
    Row to = row("H2D", "Context::copy");
    Row to_sticks = row("H2D", "stickify alone");
    Row from = row("D2H", "Context::copy");
    Row from_sticks = row("D2H", "unstickify alone");
    renew();
    for (unsigned round = 0; round < session_.options().rounds; ++round) {
      renew();
      const double sent = bandwidth([&] { send(); });
      to.add(sent, bandwidth([&] { copy_to_card(); }));
      to_sticks.add(sent, bandwidth([&] { svp::stickify(shape_, values_, tensor_.layout(), sticks_); }));
      check();
      const double received = bandwidth([&] { receive(); });
      from.add(received, bandwidth([&] { card_.to_host(tensor_, {shape_, back_}); }));
      from_sticks.add(received, bandwidth([&] { svp::unstickify(tensor_.layout(), sticks_, shape_, back_); }));
      check();
    }
    for (Row* each : {&to, &to_sticks, &from, &from_sticks}) session_.add(std::move(*each));
  }

 private:
  Row row(const char* what, const char* limit) const {
    return {.id = "P14",
            .what = fmt::format("libflex {} with conversion, {}", what, matrix_.name),
            .unit = Unit::BytesPerSecond,
            .limit = limit,
            .checked = "every element, fresh data each round"};
  }

  // Numbers that DL16 has: they come back as they went.
  void renew() {
    std::vector<float> numbers(static_cast<std::size_t>(shape_.element_count()));
    for (float& number : numbers) number = static_cast<float>(static_cast<int>(random_() % 511) - 255) / 16;
    if (matrix_.dtype == DataType::Float32) {
      std::memcpy(values_.data(), numbers.data(), values_.size());
      return;
    }
    std::vector<std::uint16_t> codes(numbers.size());
    svp::convert_to_device(DataType::Float32, svp::DeviceType::Dl16, numbers.data(), codes.data(), codes.size());
    svp::convert_to_host(svp::DeviceType::Dl16, DataType::Float16, codes.data(), values_.data(), codes.size());
  }
  // What either interface has sent, by both.
  void check() {
    send();
    copy_to_card();
    std::ranges::fill(back_, std::byte{0});
    receive();
    require(back_ == values_, "libflex: other elements came back");
    std::ranges::fill(back_, std::byte{0});
    card_.to_host(tensor_, {shape_, back_});
    require(back_ == values_, "Context::copy: other elements came back");
  }

  void send() {
    flex_test::send(*stream_, values_.data(), values_.size(), memory_, conversion_of(matrix_, true));
    stream_->synchronize();
  }
  void receive() {
    flex_test::receive(*stream_, back_.data(), back_.size(), memory_, conversion_of(matrix_, false));
    stream_->synchronize();
  }
  void copy_to_card() {
    card_.copy(tensor_, svp::ConstHostTensor{shape_, values_}, card_.default_stream());
    card_.default_stream().Synchronize();
  }
  template <typename Run>
  double bandwidth(Run run) {
    const unsigned count = session_.amount(matrix_.rows < 1024 ? 200 : 20);
    return static_cast<double>(values_.size()) / median_time(count, run) * 1e9;
  }

  Session& session_;
  svp::Context& card_;
  Matrix matrix_;
  svp::HostShape shape_;
  svp::SpyreTensor tensor_;
  std::vector<std::byte> values_;
  std::vector<std::byte> back_;
  std::vector<std::byte> sticks_;
  std::mt19937_64 random_{20261124};
  std::shared_ptr<flex::RuntimeContext> runtime_;
  flex::RuntimeStream* stream_ = nullptr;
  flex::CompositeAddress memory_;
};

}  // namespace

void measure_flex_transfers(Session& session) {
  share_with_flex(&session.card());
  const Apart apart(session.card());
  for (const Matrix& matrix : kMatrices) FlexTransferBench(session, matrix).measure();
}

}  // namespace bench
