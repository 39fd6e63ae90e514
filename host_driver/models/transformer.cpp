// SPDX-License-Identifier: Apache-2.0
#include "host_driver/models/transformer.hpp"

#include <chrono>
#include <cmath>
#include <cstring>
#include <utility>

#include "host_driver/base/error.hpp"
#include "host_driver/tensor/stickify.hpp"

namespace svp::models {
namespace {

using ops::Op;

constexpr unsigned kEagerSteps = 1;  // the programs are on the card then
// Added to the scores of positions that are not there yet.
constexpr float kHidden = -4294967296.0F;

std::span<const std::byte> bytes_of(const std::vector<float>& values) { return std::as_bytes(std::span(values)); }

// Row p: 0 for the positions up to p.
Matrix mask_of(const TransformerConfig& config) {
  const std::size_t n = config.positions;
  Matrix mask{.size = {config.positions, config.positions}, .values = std::vector<float>(n * n)};
  for (std::size_t p = 0; p < n; ++p) {
    for (std::size_t j = p + 1; j < n; ++j) mask.values[p * n + j] = kHidden;
  }
  return mask;
}

}  // namespace

struct Transformer::Layer {
  SpyreTensor norm1, bias1, query, key, value, output, norm2, bias2, up, up_bias, down, down_bias;
  SpyreTensor keys, values;  // [positions, width]
};

Transformer::Transformer(Context& context, Operations& operations, const TransformerConfig& config,
                         const TransformerWeights& weights)
    : context_(context),
      operations_(operations),
      config_(config),
      stream_(context.stream()),
      token_(context.empty(DataType::Int32, {1})),
      position_index_(context.empty(DataType::Int32, {1})),
      inputs_(context.host_memory().allocate(2 * wire::kStickBytes)) {
  if (config.head_width % 64 != 0 || config.positions < 2) {
    throw InvalidArgument("config", "heads of " + std::to_string(config.head_width) + " elements",
                          "give whole sticks of 64, and two positions or more");
  }
  token_table_ = to_card(weights.token);
  position_table_ = to_card(weights.position);
  norm_ = to_card(weights.norm);
  bias_ = to_card(weights.bias);
  logits_weight_ = to_card(weights.logits);
  mask_ = to_card(mask_of(config));
  const Matrix nothing{.size = {config.positions, config.width()},
                       .values = std::vector<float>(static_cast<std::size_t>(config.positions * config.width()))};
  for (const LayerWeights& w : weights.layers) {
    layers_.push_back({to_card(w.norm1), to_card(w.bias1), to_card(w.query), to_card(w.key), to_card(w.value),
                       to_card(w.output), to_card(w.norm2), to_card(w.bias2), to_card(w.up), to_card(w.up_bias),
                       to_card(w.down), to_card(w.down_bias), to_card(nothing), to_card(nothing)});
  }
  context_.default_stream().Synchronize();
}

Transformer::~Transformer() = default;

SpyreTensor Transformer::to_card(const Matrix& matrix) {
  return context_.to_device({HostShape::contiguous(DataType::Float32, matrix.size), bytes_of(matrix.values)},
                            DeviceType::Dl16);
}

SpyreTensor Transformer::op(const std::string& part, Op op, std::vector<SpyreTensor> inputs,
                            std::vector<double> scalars, std::vector<std::int64_t> integers,
                            std::optional<SpyreTensor> out) {
  const auto start = std::chrono::steady_clock::now();
  SpyreTensor result =
      operations_.run(op, inputs, scalars, integers, {.stream = stream_, .out = std::move(out)}).front();
  if (eager_steps_ == 0) parts_.push_back({part, ops::info_of(op).name});
  if (times_ != nullptr) {
    stream_.Synchronize();
    times_->push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
  }
  return result;
}

SpyreTensor Transformer::attend(std::size_t number, const SpyreTensor& normed) {
  const Layer& w = layers_[number];
  const std::string name = "layer " + std::to_string(number) + " ";
  const std::int64_t heads = config_.heads;
  const std::int64_t width = config_.head_width;
  const SpyreTensor query = op(name + "query", Op::MatMul, {normed, w.query});
  const SpyreTensor key = op(name + "key", Op::MatMul, {normed, w.key});
  const SpyreTensor value = op(name + "value", Op::MatMul, {normed, w.value});
  op(name + "keep key", Op::IndexCopy, {position_index_, key}, {}, {}, w.keys);
  op(name + "keep value", Op::IndexCopy, {position_index_, value}, {}, {}, w.values);
  const auto by_head = [&](const SpyreTensor& tensor, std::int64_t rows) {
    return tensor.view({rows, heads, width}).permute({1, 0, 2});
  };
  const SpyreTensor scaled =
      op(name + "scale", Op::Mul, {query}, {1 / std::sqrt(static_cast<double>(config_.head_width))});
  const SpyreTensor keys = by_head(w.keys, config_.positions).transpose(1, 2);
  const SpyreTensor scores = op(name + "scores", Op::MatMul, {by_head(scaled, 1), keys});
  const SpyreTensor mask = op(name + "mask row", Op::Embedding, {mask_, position_index_});
  const SpyreTensor masked = op(name + "mask", Op::Add, {scores, mask});
  const SpyreTensor weights = op(name + "softmax", Op::Softmax, {masked}, {}, {-1});
  const SpyreTensor mixed = op(name + "mix", Op::MatMul, {weights, by_head(w.values, config_.positions)});
  const SpyreTensor joined = mixed.permute({1, 0, 2}).view({1, config_.width()});
  return op(name + "output", Op::MatMul, {joined, w.output});
}

SpyreTensor Transformer::layer(std::size_t number, SpyreTensor hidden) {
  const Layer& w = layers_[number];
  const std::string name = "layer " + std::to_string(number) + " ";
  const SpyreTensor first = op(name + "norm", Op::LayerNorm, {hidden, w.norm1, w.bias1}, {1e-5});
  hidden = op(name + "add attention", Op::Add, {hidden, attend(number, first)});
  const SpyreTensor second = op(name + "norm 2", Op::LayerNorm, {hidden, w.norm2, w.bias2}, {1e-5});
  const SpyreTensor up = op(name + "up", Op::MatMul, {second, w.up});
  const SpyreTensor biased = op(name + "up bias", Op::Add, {up, w.up_bias});
  const SpyreTensor active = op(name + "gelu", Op::Gelu, {biased});
  const SpyreTensor down = op(name + "down", Op::MatMul, {active, w.down});
  const SpyreTensor whole = op(name + "down bias", Op::Add, {down, w.down_bias});
  return op(name + "add mlp", Op::Add, {hidden, whole});
}

void Transformer::write_inputs(unsigned token) {
  std::memset(inputs_.data(), 0, inputs_.size());
  std::memcpy(inputs_.data(), &token, sizeof token);
  std::memcpy(inputs_.data() + wire::kStickBytes, &position_, sizeof position_);
}

// Everything between the pinned inputs and the pinned outputs.
void Transformer::launch_step() {
  const auto move = [this](const Job& job) { stream_.flex_stream().Launch(job, {}); };
  move(Job::to_device(inputs_.data(), token_.allocation_index(), wire::kStickBytes));
  move(Job::to_device(inputs_.data() + wire::kStickBytes, position_index_.allocation_index(), wire::kStickBytes));
  const SpyreTensor token = op("token", Op::Embedding, {token_table_, token_});
  const SpyreTensor place = op("position", Op::Embedding, {position_table_, position_index_});
  SpyreTensor hidden = op("embedding", Op::Add, {token, place});
  for (std::size_t i = 0; i < layers_.size(); ++i) hidden = layer(i, hidden);
  const SpyreTensor normed = op("norm", Op::LayerNorm, {hidden, norm_, bias_}, {1e-5});
  const SpyreTensor logits = op("logits", Op::MatMul, {normed, logits_weight_});
  if (outputs_.empty()) outputs_ = context_.host_memory().allocate(logits.size_bytes());
  move(Job::from_device(outputs_.data(), logits.allocation_index(), logits.size_bytes()));
}

std::vector<float> Transformer::step(unsigned token) {
  if (token >= config_.vocabulary) {
    throw InvalidArgument("token", "token " + std::to_string(token), "give one of the vocabulary");
  }
  if (position_ == config_.positions) {
    throw InvalidArgument("position", "the sequence is full", "restart(), or make the model with more positions");
  }
  write_inputs(token);
  if (prepared_ == nullptr && eager_steps_ >= kEagerSteps) {
    const auto capture = stream_.flex_stream().BeginCapture();
    try {
      launch_step();
    } catch (...) {
      stream_.flex_stream().AbandonCapture(capture);
      throw;
    }
    prepared_ = stream_.flex_stream().EndCapture();
  }
  if (prepared_ != nullptr) {
    stream_.flex_stream().Launch(*prepared_);
  } else {
    launch_step();
    ++eager_steps_;
  }
  stream_.Synchronize();
  ++position_;
  std::vector<float> logits(config_.vocabulary);
  const HostShape shape = HostShape::contiguous(DataType::Float32, {1, config_.vocabulary});
  unstickify(SpyreTensorLayout::of(HostShape::contiguous(DataType::Float16, {1, config_.vocabulary})), outputs_.bytes(),
             shape, std::as_writable_bytes(std::span(logits)));
  return logits;
}

void Transformer::restart() { position_ = 0; }

std::vector<double> Transformer::time_parts(unsigned token) {
  std::vector<double> times;
  write_inputs(token);
  times_ = &times;
  try {
    launch_step();
  } catch (...) {
    times_ = nullptr;
    throw;
  }
  times_ = nullptr;
  stream_.Synchronize();
  return times;
}

}  // namespace svp::models
