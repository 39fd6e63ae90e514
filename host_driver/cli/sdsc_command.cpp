// SPDX-License-Identifier: Apache-2.0
// `spyre sdsc`: bundles of torch-spyre, explained, checked and executed.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>

#include "host_driver/base/printable.hpp"
#include "host_driver/cli/commands.hpp"
#include "host_driver/cli/exit_codes.hpp"
#include "host_driver/cli/output.hpp"
#include "host_driver/cli/progress.hpp"
#include "host_driver/cli/sdsc_arguments.hpp"
#include "host_driver/compiler/compile.hpp"
#include "host_driver/compiler/explain.hpp"
#include "host_driver/frontend/context.hpp"
#include "host_driver/program/golden/golden.hpp"

namespace cli {

namespace {

using nlohmann::ordered_json;
using svp::DeviceProgram;
using svp::compiler::Bundle;
using wire::program::Access;

using Memory = std::vector<std::vector<std::byte>>;

std::string text_of_refusal(const svp::InvalidPlan& refused) {
  return fmt::format("refused: {}\nnext: {}\n", svp::printable(refused.info().message), refused.info().next_step);
}

bool reads(Access access) { return access == Access::Read || access == Access::ReadWrite; }

// ---- run ------------------------------------------------------------------------------------------------------------

// What the command line says of one argument.
struct Given {
  std::string input{};   // a file; empty: the memory is zero when the program begins
  std::string output{};  // empty: not written
  std::optional<ArgumentShape> shape{};
};

Given& given_of(std::vector<Given>& given, const char* option, std::size_t argument) {
  if (argument < given.size()) return given[argument];
  throw svp::InvalidArgument(option, fmt::format("the bundle has no argument {}, it has {}", argument, given.size()),
                             "count the parameters of sdsc_bundle from 0 (spyre sdsc explain lists them)");
}

void set_once(std::string& file, const char* option, const ArgumentFile& value) {
  if (!file.empty()) {
    throw svp::InvalidArgument(option, fmt::format("argument {} is given twice", value.argument), "give it once");
  }
  file = value.file;
}

std::vector<Given> given_arguments(const SdscRunOptions& options, std::size_t count) {
  std::vector<Given> given(count);
  for (const std::string& text : options.arguments) {
    const ArgumentFile value = parse_argument_file("--arg", text);
    set_once(given_of(given, "--arg", value.argument).input, "--arg", value);
  }
  for (const std::string& text : options.outputs) {
    const ArgumentFile value = parse_argument_file("--out", text);
    set_once(given_of(given, "--out", value.argument).output, "--out", value);
  }
  for (const std::string& text : options.shapes) {
    const ArgumentShapeOption value = parse_argument_shape(text);
    given_of(given, "--as", value.argument).shape = value.shape;
  }
  return given;
}

// What the arrays put into the memory of the arguments; empty: nothing is given. An array's shape is that of the
// result, too, when nothing else is said.
Memory given_memory(const DeviceProgram& program, std::vector<Given>& given) {
  Memory memory(given.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (given[i].input.empty()) {
      if (!reads(program.arguments()[i].access)) continue;
      throw svp::InvalidArgument("--arg", fmt::format("the bundle reads argument {}", i),
                                 fmt::format("give it: --arg {}=FILE.npy", i));
    }
    const NpyArray array = read_npy(given[i].input);
    memory[i] = device_bytes(program, i, array);
    if (!given[i].shape) given[i].shape = ArgumentShape{.dtype = array.dtype, .size = array.size};
  }
  return memory;
}

// Compiled for these lengths, as a launch would do. What is not given is made as long as the program needs it.
std::shared_ptr<const DeviceProgram> compile_for(const Bundle& bundle, Memory& memory) {
  svp::compiler::CompileOptions options;
  for (const auto& bytes : memory) options.lengths.push_back(bytes.size());
  auto program = std::make_shared<const DeviceProgram>(svp::compiler::compile(bundle, options));
  for (std::size_t i = 0; i < memory.size(); ++i) {
    if (memory[i].empty()) memory[i].resize(program->arguments()[i].bytes);
    require_bytes(*program, i, memory[i].size());
  }
  return program;
}

void run_on_golden(const DeviceProgram& program, Memory& memory) {
  const Progress progress("executing on the golden model");
  const std::vector<std::span<std::byte>> spans(memory.begin(), memory.end());
  try {
    svp::program::golden::run(program.bytes(), spans);
  } catch (const svp::program::golden::Refused& refused) {
    const wire::program::Refusal& refusal = refused.refusal();
    if (refusal.where != wire::program::Where::Index) throw;
    const std::uint64_t rows = program.rows_of(refusal.operation, refusal.operand);
    throw svp::InvalidArgument(
        "--arg", program.describe_index(refusal),
        rows == 0 ? "give a table with rows" : fmt::format("give indices from 0 to {}", rows - 1));
  }
}

// Returns the device's name.
std::string run_on_card(const std::shared_ptr<const DeviceProgram>& program, Memory& memory) {
  Progress progress("booting the card");
  const auto context = svp::Context::open();
  progress.set("executing on the card");
  svp::ExecutionPlan plan({svp::Job(program)});
  context->load(plan);
  svp::FlexStream& stream = context->runtime().default_stream();
  std::vector<svp::AllocationIndex> places;
  std::vector<svp::Argument> arguments;
  for (const auto& bytes : memory) {
    places.push_back(context->runtime().allocator().allocate(bytes.size()));
    stream.Launch(svp::Job::to_device(bytes.data(), places.back(), bytes.size()), {});
    arguments.push_back(svp::Argument::raw(places.back()));
  }
  stream.Launch(plan.jobs()[0], arguments);
  for (std::size_t i = 0; i < memory.size(); ++i) {
    stream.Launch(svp::Job::from_device(memory[i].data(), places[i], memory[i].size()), {});
  }
  stream.Synchronize();
  return context->device_name();
}

ordered_json write_results(const DeviceProgram& program, const std::vector<Given>& given, const Memory& memory) {
  ordered_json written = ordered_json::array();
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (given[i].output.empty()) continue;
    const NpyArray array = host_array(program, i, given[i].shape.value_or(ArgumentShape{}), memory[i]);
    write_npy(given[i].output, array);
    written.push_back(
        {{"argument", i}, {"file", given[i].output}, {"dtype", svp::name(array.dtype)}, {"shape", array.size}});
  }
  return written;
}

void print_run(const ordered_json& report) {
  fmt::print("executed on {}\n", report["device"].get<std::string>());
  for (const auto& output : report["outputs"]) {
    fmt::print("argument {}: {} {} in {}\n", output["argument"].get<std::size_t>(), output["dtype"].get<std::string>(),
               output["shape"].dump(), output["file"].get<std::string>());
  }
}

}  // namespace

int sdsc_explain(const SdscExplainOptions& options) {
  const Bundle bundle = svp::compiler::read_bundle(options.directory);
  try {
    const DeviceProgram program = svp::compiler::compile(bundle);
    fmt::print("{}", svp::compiler::explain(bundle, &program));
    if (options.program) {
      fmt::print("\ndevice program {}, {} bytes, workspace {} bytes\n{}", svp::printable(program.name()),
                 program.bytes().size(), program.workspace_bytes(), svp::compiler::explain(program));
    }
    return kOk;
  } catch (const svp::InvalidPlan& refused) {
    fmt::print("{}\n{}", svp::compiler::explain(bundle, nullptr), text_of_refusal(refused));
    return kNotAsWanted;
  }
}

int sdsc_check(const SdscCheckOptions& options) {
  try {
    const DeviceProgram program = svp::compiler::compile(svp::compiler::read_bundle(options.directory));
    const std::size_t arguments = program.arguments().size();
    const std::uint32_t operations = program.header().operation_count;
    if (options.json) {
      print_json({{"accepted", true}, {"arguments", arguments}, {"operations", operations}});
    } else {
      fmt::print("accepted: {} arguments, {} operations\n", arguments, operations);
    }
    return kOk;
  } catch (const svp::InvalidPlan& refused) {
    if (options.json) {
      ordered_json object{{"accepted", false}};
      object.update(error_json(refused.info()));
      print_json(object);
    } else {
      fmt::print("{}", text_of_refusal(refused));
    }
    return kNotAsWanted;
  }
}

int sdsc_run(const SdscRunOptions& options) {
  const Bundle bundle = svp::compiler::read_bundle(options.directory);
  const DeviceProgram without_lengths = svp::compiler::compile(bundle);
  std::vector<Given> given = given_arguments(options, without_lengths.arguments().size());
  Memory memory = given_memory(without_lengths, given);
  const auto program = compile_for(bundle, memory);
  std::string device = "the golden model";
  if (options.card) {
    device = run_on_card(program, memory);
  } else {
    run_on_golden(*program, memory);
  }
  const ordered_json report{{"device", device}, {"outputs", write_results(*program, given, memory)}};
  if (options.json) {
    print_json(report);
  } else {
    print_run(report);
  }
  return kOk;
}

}  // namespace cli
