// SPDX-License-Identifier: Apache-2.0
// What `spyre run OP --verify` computes, judges and reports, with the golden model in the place of the card.
#include "host_driver/cli/op_problem.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "host_driver/base/error.hpp"
#include "host_driver/cli/exit_codes.hpp"
#include "host_driver/cli/op_report.hpp"
#include "host_driver/ops/elements.hpp"
#include "host_driver/ops/operation_table.hpp"
#include "host_driver/program/golden/golden.hpp"

namespace cli {
namespace {

using svp::ops::Op;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

svp::ops::Request request_of(const OpProblem& problem) {
  svp::ops::Request request{.op = problem.op, .scalars = problem.numbers, .integers = problem.integers};
  for (std::size_t i = 0; i < problem.inputs.size(); ++i) {
    const auto device = svp::default_device_type(problem.dtypes[i]);
    request.inputs.push_back(svp::ops::TensorForm::dense(problem.dtypes[i], problem.inputs[i].size, *device));
  }
  return request;
}

// Of a card that is right: what the golden model makes of the program.
std::vector<svp::ops::Array> results_of(const OpProblem& problem, const svp::ops::Request& request) {
  const svp::ops::Lowered lowered = svp::ops::lower(request);
  std::vector<std::vector<std::byte>> memory;
  memory.reserve(problem.inputs.size() + lowered.outputs.size());
  for (std::size_t i = 0; i < problem.inputs.size(); ++i) {
    memory.push_back(svp::ops::device_bytes(request.inputs[i], problem.inputs[i]));
  }
  for (const auto& form : lowered.outputs) memory.emplace_back(form.layout.device_bytes());
  const std::vector<std::span<std::byte>> arguments(memory.begin(), memory.end());
  svp::program::golden::run(lowered.program, arguments);
  std::vector<svp::ops::Array> results;
  results.reserve(lowered.outputs.size());
  for (std::size_t i = 0; i < lowered.outputs.size(); ++i) {
    results.push_back(svp::ops::elements_of(lowered.outputs[i], memory[problem.inputs.size() + i]));
  }
  return results;
}

OpCheck checked(const RunOpOptions& options, std::uint64_t seed) {
  const OpProblem problem = make_op_problem(options, seed);
  const svp::ops::Request request = request_of(problem);
  return check_op(problem, request, results_of(problem, request));
}

std::string words_of(const OpCheck& check) {
  return svp::ops::describe(check.exact.beyond) + " (" + svp::ops::bound_text(check.bound) + ")";
}

// Without shapes and numbers, and with one shape for all of them where that is enough.
TEST(OpProblem, EveryOperationIsWithinItsBound) {
  for (const svp::ops::OpInfo& info : svp::ops::operation_table()) {
    if (info.op == Op::MatMul || info.op == Op::IndexCopy) continue;
    for (const std::string dtype : {"float16", "float32"}) {
      if (dtype == "float32" && !info.fp32) continue;
      SCOPED_TRACE(info.name + (" of " + dtype));
      const bool large = info.op == Op::Conv2d || info.op == Op::Embedding || info.op == Op::Cat;
      RunOpOptions options{.op = info.name, .dtype = dtype};
      if (info.op == Op::Embedding || info.op == Op::Cat) options.shapes = {"9x70", "9x70"};
      if (info.op == Op::Embedding) options.shapes = {"9x70", "5"};
      if (info.op == Op::Conv2d) options.shapes = {"1x6x9x9", "5x6x3x3"};
      for (std::uint64_t seed = 0; seed < (large ? 2 : 4); ++seed) {
        const OpCheck check = checked(options, seed);
        EXPECT_TRUE(check.passed()) << words_of(check);
      }
    }
  }
}

TEST(OpProblem, NumbersAreThoseThatTheCardHas) {
  const auto passes = [](const RunOpOptions& options) {
    const OpCheck check = checked(options, 1);
    return check.passed() ? std::string("passed") : options.op + ": " + words_of(check);
  };
  EXPECT_EQ(passes({.op = "add", .shapes = {"7x70"}, .numbers = {0.1}}), "passed");
  EXPECT_EQ(passes({.op = "mul", .shapes = {"7x70"}, .numbers = {1e-10}}), "passed");
  EXPECT_EQ(passes({.op = "sub", .shapes = {"7x70"}, .dtype = "float32", .numbers = {0.1}}), "passed");
  EXPECT_EQ(passes({.op = "clip", .shapes = {"7x70"}, .numbers = {-0.1, 0.3}}), "passed");
  EXPECT_EQ(passes({.op = "softplus", .shapes = {"7x70"}, .numbers = {0.3, 20}}), "passed");
  EXPECT_EQ(passes({.op = "linear_fp8", .shapes = {"5x70", "33x70"}, .numbers = {0.013, 0.7}}), "passed");
  EXPECT_EQ(passes({.op = "rms_norm", .shapes = {"7x100"}, .numbers = {0.1}}), "passed");
  EXPECT_EQ(passes({.op = "layer_norm", .shapes = {"7x100"}}), "passed");
  EXPECT_EQ(passes({.op = "linear", .shapes = {"7x100"}}), "passed");
}

// The golden model computes what the program says: a program that says something else is found in double precision.
TEST(OpProblem, AProgramOfAnotherFunctionFails) {
  const OpProblem problem = make_op_problem({.op = "softplus", .shapes = {"7x13"}, .numbers = {0.5, 20}}, 1);
  svp::ops::Request request = request_of(problem);
  EXPECT_TRUE(check_op(problem, request, results_of(problem, request)).passed());
  request.scalars = {0.25, 20};
  const OpCheck check = check_op(problem, request, results_of(problem, request));
  EXPECT_TRUE(check.golden.equal());
  EXPECT_FALSE(check.passed());
  EXPECT_EQ(check.exact.beyond.differ, 91U);
}

struct Reported {
  int code = 0;
  std::string text;
};

// What `spyre run OP --verify` says when element 0 of its first result came back as `changed` makes it.
Reported reported(const std::string& op, bool json, const std::function<double(double)>& changed) {
  const RunOpOptions options{.op = op, .shapes = {"7x13"}, .verify = true, .json = json};
  const OpProblem problem = make_op_problem(options, 1);
  const svp::ops::Request request = request_of(problem);
  std::vector<svp::ops::Array> results = results_of(problem, request);
  results[0].data[0] = changed(results[0].data[0]);
  OpRun run;
  run.check = check_op(problem, request, results);
  testing::internal::CaptureStdout();
  const int code = report_op(options, problem, run);
  std::fflush(stdout);
  return {code, testing::internal::GetCapturedStdout()};
}

TEST(OpReport, ARightResultPassesAndEndsWithZero) {
  const auto same = [](double x) { return x; };
  const Reported people = reported("exp", false, same);
  EXPECT_EQ(people.code, kOk);
  EXPECT_THAT(people.text, AllOf(HasSubstr("  PASSED\n"), Not(HasSubstr("FAILED"))));
  const Reported json = reported("exp", true, same);
  EXPECT_EQ(json.code, kOk);
  EXPECT_EQ(nlohmann::json::parse(json.text).at("passed"), true);
}

// The first change is within the bound of exp: only the golden model finds it.
TEST(OpReport, AWrongResultFailsAndEndsWithOne) {
  const std::vector<std::function<double(double)>> changes = {[](double x) { return std::nextafter(x, 2 * x); },
                                                              [](double x) { return 2 * x; },
                                                              [](double) { return std::nan(""); }};
  for (const auto& changed : changes) {
    const Reported people = reported("exp", false, changed);
    EXPECT_EQ(people.code, kNotAsWanted);
    EXPECT_THAT(people.text, AllOf(HasSubstr("  FAILED\n"), Not(HasSubstr("PASSED")), HasSubstr("1 of 91 elements")));
    const Reported json = reported("exp", true, changed);
    EXPECT_EQ(json.code, kNotAsWanted);
    EXPECT_EQ(nlohmann::json::parse(json.text).at("passed"), false);
    EXPECT_EQ(nlohmann::json::parse(json.text).at("mismatches"), 1);
  }
}

// What a run does before it needs a card: it takes the shapes, or refuses them with a reason.
void look_at(const RunOpOptions& options) {
  try {
    const OpProblem problem = make_op_problem(options, 1);
    EXPECT_EQ(problem.inputs.size(), problem.dtypes.size());
  } catch (const svp::Error& error) {
    EXPECT_STRNE(error.what(), "");
  }
}

TEST(OpProblem, EveryOperationTakesOrRefusesEmptyAndOddShapes) {
  const std::vector<std::vector<std::string>> shapes = {
      {""},  {"", ""},  {"", "", ""},     {"", "6"},       {"6", ""},         {"2x3", ""},
      {"1"}, {"1x1x1"}, {"", "2x3", "3"}, {"3", "5", "7"}, {"1x1x1x1x1x1x1"}, {"2x3", "2x3", "2x3", "2x3", "2x3"}};
  for (const svp::ops::OpInfo& info : svp::ops::operation_table()) {
    SCOPED_TRACE(info.name);
    for (const auto& shape : shapes) {
      look_at({.op = info.name, .shapes = shape, .dtype = "float16"});
      look_at({.op = info.name, .shapes = shape, .dtype = "float32", .numbers = {0.5}, .integers = {-1}});
    }
  }
}

TEST(OpProblem, TextsThatAreNoShapesAreRefused) {
  for (const char* text : {"x", "1x", "x1", "-1", "1xx2", "1 x2", "99999999999", "a"}) {
    EXPECT_THROW((void)parse_extents(text), svp::InvalidArgument) << text;
  }
  EXPECT_TRUE(parse_extents("").empty());
}

}  // namespace
}  // namespace cli
