// SPDX-License-Identifier: Apache-2.0
// What the engine asks the compute array for, of each operation, as the card's trace tells. An operation that falls
// back to the engine's own code has the same bytes, and no other test notices.
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "host_driver/ops/operations.hpp"
#include "shared/array.hpp"
#include "tests/device/runtime/card_trace.hpp"

namespace svp {
namespace {

using ops::Op;
using wire::array::Kind;
using Kinds = std::set<Kind>;

class ArrayRequests : public test::OneCard {
 protected:
  void SetUp() override {
    if (context().device().config().array_version == 0) GTEST_SKIP() << "the card has no array";
  }

  static SpyreTensor tensor(const std::vector<std::int64_t>& shape, DataType dtype = DataType::Float16) {
    const SpyreTensor made = context().empty(dtype, shape, {.device_dtype = device_type(dtype)});
    const std::size_t count = static_cast<std::size_t>(made.element_count());
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i % 7) / 4 + 0.5F;
    context().copy(made, {HostShape::contiguous(DataType::Float32, shape), std::as_bytes(std::span(values))},
                   context().default_stream());
    return made;
  }
  static SpyreTensor indices(std::int64_t count) {
    const SpyreTensor made = context().empty(DataType::Int64, {count});
    std::vector<std::int64_t> values(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::int64_t>(values.size() - 1 - i);
    context().copy(made, {HostShape::contiguous(DataType::Int64, {count}), std::as_bytes(std::span(values))},
                   context().default_stream());
    return made;
  }
  static std::optional<DeviceType> device_type(DataType dtype) {
    return dtype == DataType::Float32 ? std::optional(DeviceType::Fp32) : std::nullopt;
  }

  static Kinds asked() {
    Kinds kinds;
    for (const wire::TraceEntry& entry : test::trace_ring()) {
      if (entry.number != 0 && entry.kind == wire::TraceKind::Array) kinds.insert(static_cast<Kind>(entry.value));
    }
    return kinds;
  }

  static std::string text_of(const Kinds& kinds) {
    std::string text;
    for (const Kind kind : kinds) text += (text.empty() ? "" : ", ") + std::string(wire::array::name(kind));
    return text;
  }

  struct Request {
    std::vector<SpyreTensor> inputs;
    std::vector<double> scalars;
    std::vector<std::int64_t> integers;
    Kinds kinds;
    OperationOptions options;
  };
  // Large enough for the array. What is not here does not compile.
  static Request request_of(Op op, DataType dtype);

  Operations operations_{context()};
};

ArrayRequests::Request ArrayRequests::request_of(Op op, DataType dtype) {
  const auto of = [&](const std::vector<std::int64_t>& shape) { return tensor(shape, dtype); };
  const bool wide = dtype == DataType::Float32;
  const Kinds compared = wide ? Kinds{Kind::Rows, Kind::Convert} : Kinds{Kind::Rows};
  // With its bias, and the transposed weight or image.
  const Kinds product{Kind::Chunk, Kind::Rows, Kind::Blocks};
  // Sums are FP32 until they are rounded.
  const auto rounded = [&](Kinds kinds) {
    if (!wide) kinds.insert(Kind::Convert);
    return kinds;
  };
  switch (op) {
    case Op::Copy:
    case Op::Abs:
    case Op::Neg:
    case Op::Relu:
    case Op::Floor: return {{of({64, 512})}, {}, {}, {Kind::Rows}, {}};
    case Op::Clip: return {{of({64, 512})}, {0.5, 1}, {}, {Kind::Rows}, {}};
    case Op::Add:
    case Op::Sub:
    case Op::Mul:
    case Op::Div:
    case Op::Maximum:
    case Op::Minimum: return {{of({64, 512}), of({64, 512})}, {}, {}, {Kind::Rows}, {}};
    // A bool tensor is DL16.
    case Op::Equal:
    case Op::NotEqual:
    case Op::Greater:
    case Op::GreaterEqual:
    case Op::Less:
    case Op::LessEqual: return {{of({64, 512}), of({64, 512})}, {}, {}, compared, {}};
    case Op::Where: return {{tensor({64, 512}), of({64, 512}), of({64, 512})}, {}, {}, compared, {}};
    case Op::Exp:
    case Op::Log:
    case Op::Sqrt:
    case Op::Rsqrt:
    case Op::Reciprocal:
    case Op::Sigmoid:
    case Op::Tanh:
    case Op::Silu:
    case Op::Gelu:
    case Op::Softplus: return {{of({64, 512})}, {}, {}, wide ? Kinds{} : Kinds{Kind::Rows}, {}};
    case Op::Sum:
    case Op::Mean: return {{of({64, 512})}, {}, {1}, rounded({Kind::Lines}), {}};
    case Op::Max:
    case Op::Min: return {{of({64, 512})}, {}, {1}, {Kind::Lines}, {}};
    case Op::Prod: return {{of({64, 512})}, {}, {1}, rounded({}), {}};  // the products are the engine's
    case Op::TopK: return {{of({64, 512})}, {}, {4}, rounded({Kind::TopK, Kind::Rows}), {}};
    case Op::MatMul: return {{of({64, 256}), of({256, 64})}, {}, {}, {Kind::Chunk}, {}};
    case Op::Linear: return {{of({64, 256}), of({512, 256}), of({512})}, {}, {}, product, {}};
    case Op::LinearFp8: return {{of({64, 256}), of({512, 256}), of({512})}, {}, {}, rounded(product), {}};
    case Op::Attention: {
      Kinds kinds = product;
      kinds.insert(Kind::Lines);
      return {{of({2, 64, 64}), of({2, 64, 64}), of({2, 64, 64})}, {}, {}, kinds, {}};
    }
    case Op::Softmax: return {{of({64, 512})}, {}, {1}, {Kind::Lines, Kind::Rows}, {}};
    case Op::LayerNorm: return {{of({64, 512}), of({512}), of({512})}, {}, {}, {Kind::Lines, Kind::Rows}, {}};
    case Op::RmsNorm: return {{of({64, 512}), of({512})}, {}, {}, rounded({Kind::Lines, Kind::Rows}), {}};
    case Op::Embedding: return {{of({64, 512}), indices(32)}, {}, {}, {Kind::Copies}, {}};
    case Op::IndexCopy: return {{indices(32), of({32, 512})}, {}, {}, {Kind::Copies}, {.out = of({64, 512})}};
    case Op::Cat: return {{of({64, 512}), of({64, 512})}, {}, {0}, {Kind::Rows}, {}};
    case Op::AvgPool2d: return {{of({64, 16, 64})}, {}, {2, 2}, rounded({Kind::Lines, Kind::Blocks}), {}};
    case Op::MaxPool2d: return {{of({64, 16, 64})}, {}, {2, 2}, {Kind::Lines, Kind::Blocks}, {}};
    case Op::Conv2d: return {{of({64, 16, 16}), of({64, 64, 3, 3})}, {}, {}, product, {}};
  }
  ADD_FAILURE() << "no request";
  return {};
}

TEST_F(ArrayRequests, AreMadeOfEachOperationThatTheArrayHas) {
  for (const ops::OpInfo& info : ops::operation_table()) {
    for (const DataType dtype : {DataType::Float16, DataType::Float32}) {
      if (dtype == DataType::Float32 && !info.fp32) continue;
      SCOPED_TRACE(std::string(info.name) + (dtype == DataType::Float32 ? " on FP32" : ""));
      Request request = request_of(info.op, dtype);
      request.options.core_mask = 1;  // what core 0 notes is in the ring at once
      context().default_stream().Synchronize(test::soon());
      test::trace(true);
      (void)operations_.run(info.op, request.inputs, request.scalars, request.integers, request.options);
      context().default_stream().Synchronize(test::soon());
      test::trace(false);
      EXPECT_EQ(text_of(asked()), text_of(request.kinds));
    }
  }
}

}  // namespace
}  // namespace svp
