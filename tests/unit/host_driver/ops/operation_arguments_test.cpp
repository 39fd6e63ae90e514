// SPDX-License-Identifier: Apache-2.0
// What no operation takes is refused by the name of the argument: generated from the table of operations and from valid
// requests (tests/support/op_cases.hpp), for every operation, argument and type.
#include "host_driver/ops/operation_arguments.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "host_driver/base/error.hpp"
#include "host_driver/program/device_program.hpp"
#include "host_driver/tensor/tensor_view.hpp"
#include "tests/support/op_cases.hpp"

namespace svp {
namespace {

using ops::Op;
using ops::Request;
using ops::TensorForm;
using testing::HasSubstr;
using testing::Not;

std::uint64_t seed() {
  const char* text = std::getenv("SPYRE_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 20261125;
}

// What became of a request: "" for a program that the engine takes.
struct Answer {
  std::string field;
  std::string text;
};
Answer answer_to(const Request& request) {
  try {
    ops::Lowered lowered = ops::lower(request);
    if (!lowered.program.empty()) (void)DeviceProgram("case", std::move(lowered.program));
  } catch (const InvalidArgument& error) {
    return {error.field(), error.what()};
  }
  return {};
}

std::string text_of(const Request& request) {
  test::OpCase shown;
  shown.request = request;
  return shown.text();
}

class Arguments : public testing::TestWithParam<ops::OpInfo> {
 protected:
  Op op() const { return GetParam().op; }
  Request valid() {
    const Request request = test::random_op_case(op(), random_, 2000).request;
    EXPECT_EQ(answer_to(request).text, "") << text_of(request);
    return request;
  }
  void expect_refused(const Request& request, const char* field) {
    const Answer answer = answer_to(request);
    EXPECT_EQ(answer.field, field) << text_of(request) << ": " << answer.text;
    EXPECT_THAT(answer.text, Not(HasSubstr("compiler")));
    EXPECT_THAT(answer.text, HasSubstr("next: "));
  }

 private:
  test::Random random_{seed() * 100 + static_cast<unsigned>(GetParam().op)};
};

constexpr int kRounds = 4;

TEST_P(Arguments, TooManyAreRefused) {
  const ops::OpArguments takes = ops::arguments_of(op());
  for (int round = 0; round < kRounds; ++round) {
    const Request good = valid();
    Request request = good;
    request.scalars.resize(takes.numbers_last ? takes.most_tensors - good.inputs.size() : takes.numbers, 1.0);
    request.scalars.push_back(1.0);
    expect_refused(request, "numbers");
    request = good;
    if (takes.integers != ops::kAnyNumber) {
      request.integers.resize(takes.integers + 1);
      expect_refused(request, "integers");
    } else if (!good.inputs[0].size().empty()) {
      request.integers = {0};
      for (std::size_t d = 0; d <= good.inputs[0].size().size(); ++d) request.integers.push_back(-1);
      expect_refused(request, "dim");
    }
    request = good;
    request.inputs.resize(takes.most_tensors + 1, good.inputs.back());
    expect_refused(request, "inputs");
  }
}

TEST_P(Arguments, TooFewAreRefused) {
  const ops::OpArguments takes = ops::arguments_of(op());
  Request request = valid();
  request.inputs.resize(takes.least_tensors - 1);
  expect_refused(request, "inputs");
  if (!takes.numbers_last) return;
  request = valid();
  request.inputs.resize(1);
  request.scalars.assign(takes.most_tensors - 2, 1.0);
  expect_refused(request, "inputs");
}

// The text that `spyre ops` prints says how many there are.
TEST_P(Arguments, AreThoseOfTheList) {
  const ops::OpArguments takes = ops::arguments_of(op());
  const std::string text = GetParam().arguments;
  if (takes.numbers_last || takes.integers == ops::kAnyNumber) return;
  std::size_t listed = 0;
  for (std::size_t at = 0; at < text.size();) {
    listed += text.substr(at, 2) == "2 " ? 2 : 1;  // of height and width
    const std::size_t comma = text.find(", ", at);
    at = comma == std::string::npos ? text.size() : comma + 2;
  }
  EXPECT_EQ(listed, takes.numbers + takes.integers) << text;
}

// ---- types ----------------------------------------------------------------------------------------------------------

constexpr DeviceType kFormats[] = {DeviceType::Dl16, DeviceType::Fp32,   DeviceType::Int32,   DeviceType::Int16,
                                   DeviceType::Int8, DeviceType::Uint32, DeviceType::Fp8E4m3, DeviceType::Fp8E5m2};

std::vector<TensorForm> forms_of_every_type(const std::vector<std::int64_t>& size) {
  std::vector<TensorForm> forms;
  for (unsigned type = 0; type <= static_cast<unsigned>(DataType::Bool); ++type) {
    const auto dtype = static_cast<DataType>(type);
    if (const auto device = default_device_type(dtype)) forms.push_back(TensorForm::dense(dtype, size, *device));
  }
  for (const DeviceType device : kFormats) forms.push_back(TensorForm::dense(DataType::Float32, size, device));
  return forms;
}

TEST_P(Arguments, EveryTypeIsTakenOrRefusedByItsName) {
  const ops::Types types = ops::types_of(op());
  for (int round = 0; round < kRounds; ++round) {
    const Request good = valid();
    for (std::size_t i = 0; i < good.inputs.size(); ++i) {
      const bool index = (op() == Op::Embedding && i == 1) || (op() == Op::IndexCopy && i == 0);
      for (const TensorForm& form : forms_of_every_type(good.inputs[i].size())) {
        Request request = good;
        request.inputs[i] = form;
        const Answer answer = answer_to(request);
        SCOPED_TRACE(text_of(request) + ", input " + std::to_string(i) + " of " + std::string(name(form.base.dtype)) +
                     ": " + answer.text);
        if (!index && ops::takes(types, form.layout.device_dtype)) {
          // What PyTorch refuses: bool tensors of some operations, products of two types (result_types_test).
          const bool product = GetParam().family == ops::Family::Product || op() == Op::Conv2d;
          if (form.base.dtype == DataType::Bool || product) {
            EXPECT_THAT(answer.field, testing::AnyOf("", "dtype"));
          } else {
            EXPECT_EQ(answer.field, "");
          }
          continue;
        }
        if (answer.field.empty() && index) continue;
        EXPECT_EQ(answer.field, "dtype");
        EXPECT_THAT(answer.text, Not(HasSubstr("compiler")));
        EXPECT_THAT(answer.text, HasSubstr("next: give "));
        EXPECT_THAT(answer.text, HasSubstr(index ? "int32" : ops::text_of(types)));
      }
    }
  }
}

// Kinds of types, as PyTorch orders them.
int kind_of(DataType type) {
  switch (type) {
    case DataType::Bool: return 0;
    case DataType::Int8:
    case DataType::Uint8:
    case DataType::Int16:
    case DataType::Int32:
    case DataType::Int64: return 1;
    default: return 2;
  }
}

TEST_P(Arguments, TheResultGoesIntoMemoryOfAnyTypeOfItsKindOrAHigherOne) {
  if (op() == Op::TopK) return;
  for (int round = 0; round < kRounds; ++round) {
    Request good = valid();
    if (op() != Op::IndexCopy) good.out.reset();  // which takes its rows from there
    const TensorForm result = ops::lower(good).outputs[0];
    for (const TensorForm& form : forms_of_every_type(result.size())) {
      Request request = good;
      request.out = form;
      if (op() != Op::Copy && kind_of(form.base.dtype) < kind_of(result.base.dtype)) {
        expect_refused(request, "out");
        continue;
      }
      EXPECT_EQ(answer_to(request).text, "") << text_of(request) << ", out of " << name(form.layout.device_dtype);
    }
  }
}

TEST_P(Arguments, AnOutThatNamesElementsTwiceIsRefused) {
  Request request = valid();
  TensorForm out = ops::lower(request).outputs[0];
  const auto longest = std::ranges::max_element(out.view.size) - out.view.size.begin();
  if (out.view.size.empty() || !out.has_elements() || out.view.size[static_cast<std::size_t>(longest)] < 2) return;
  out.view.stride[static_cast<std::size_t>(longest)] = 0;
  request.out = out;
  expect_refused(request, "out");
}

INSTANTIATE_TEST_SUITE_P(Table, Arguments,
                         testing::ValuesIn(ops::operation_table().begin(), ops::operation_table().end()),
                         [](const auto& param) { return std::string(param.param.name); });

TEST(TopK, HasTwoResultsAndNoOut) {
  const TensorForm x = TensorForm::dense(DataType::Float16, {8}, DeviceType::Dl16);
  const TensorForm out = TensorForm::dense(DataType::Float16, {2}, DeviceType::Dl16);
  EXPECT_EQ(answer_to({.op = Op::TopK, .inputs = {x}, .integers = {2}, .out = out}).field, "out");
}

// ---- shapes of parameters -------------------------------------------------------------------------------------------

TEST(Parameters, OfAnotherShapeAreRefused) {
  const auto form = [](std::vector<std::int64_t> size) {
    return TensorForm::dense(DataType::Float16, std::move(size), DeviceType::Dl16);
  };
  struct Case {
    Op op;
    std::vector<TensorForm> inputs;
    std::size_t parameter;
    std::int64_t extent;
  };
  const Case cases[] = {
      {Op::RmsNorm, {form({3, 64}), form({64})}, 1, 64},
      {Op::LayerNorm, {form({3, 64}), form({64}), form({64})}, 1, 64},
      {Op::LayerNorm, {form({3, 64}), form({64}), form({64})}, 2, 64},
      {Op::Linear, {form({3, 64}), form({5, 64}), form({5})}, 2, 5},
      {Op::LinearFp8, {form({3, 64}), form({5, 64}), form({5})}, 2, 5},
      {Op::Conv2d, {form({1, 4, 3, 3}), form({5, 4, 1, 1}), form({5})}, 2, 5},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(ops::info_of(c.op).name);
    EXPECT_EQ(answer_to({.op = c.op, .inputs = c.inputs}).text, "");
    for (const auto& size : {std::vector<std::int64_t>{}, {1}, {c.extent + 1}, {1, c.extent}, {3, c.extent}, {0}}) {
      Request request{.op = c.op, .inputs = c.inputs};
      request.inputs[c.parameter] = form(size);
      EXPECT_EQ(answer_to(request).field, "shape") << to_string(size);
    }
  }
}

// Heads of keys and values divide those of the queries, and are as many.
TEST(Attention, HeadsThatDoNotFitAreRefused) {
  const auto refused = [](std::int64_t q, std::int64_t k, std::int64_t v) {
    const auto form = [](std::int64_t heads) {
      return TensorForm::dense(DataType::Float16, {1, heads, 16, 64}, DeviceType::Dl16);
    };
    return answer_to({.op = Op::Attention, .inputs = {form(q), form(k), form(v)}}).field;
  };
  EXPECT_EQ(refused(8, 2, 2), "");
  EXPECT_EQ(refused(8, 1, 1), "");
  EXPECT_EQ(refused(8, 3, 3), "shape");
  EXPECT_EQ(refused(8, 2, 4), "shape");
  EXPECT_EQ(refused(2, 8, 8), "shape");
}

}  // namespace
}  // namespace svp
