// SPDX-License-Identifier: Apache-2.0
// `spyre spyrecode`: plans on disk, made from one of our kernels, and explained.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

#include "host_driver/base/printable.hpp"
#include "host_driver/cli/commands.hpp"
#include "host_driver/cli/exit_codes.hpp"
#include "host_driver/cli/output.hpp"
#include "host_driver/frontend/kernels.hpp"
#include "host_driver/program/device_program.hpp"
#include "host_driver/runtime/execution_plan.hpp"
#include "host_driver/runtime/plan_directory.hpp"
#include "host_driver/spyrecode/directory.hpp"
#include "host_driver/spyrecode/hcm.hpp"

namespace cli {

namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;
using svp::spyrecode::ComputeOnDevice;
using svp::spyrecode::ComputeOnHost;
using svp::spyrecode::DataTransfer;
using svp::spyrecode::ExecStep;
using svp::spyrecode::SpyreCode;

// ---- make -----------------------------------------------------------------------------------------------------------

constexpr const char* kShapes = "--shapes";
constexpr const char* kShapesExample = "give the extents of the kernel's dimensions, like --shapes M=64,N=128";

std::pair<std::string, std::int64_t> parse_extent(std::string_view word) {
  const std::size_t equals = word.find('=');
  std::int64_t extent = 0;
  if (equals != std::string_view::npos && equals != 0) {
    const std::string_view digits = word.substr(equals + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), extent);
    if (error == std::errc{} && end == digits.data() + digits.size()) {
      return {std::string(word.substr(0, equals)), extent};
    }
  }
  throw svp::InvalidArgument(kShapes, fmt::format("'{}' is no DIMENSION=EXTENT", word), kShapesExample);
}

svp::DimensionExtents parse_shapes(std::string_view text) {
  svp::DimensionExtents extents;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const auto [name, extent] = parse_extent(text.substr(0, comma));
    if (!extents.emplace(name, extent).second) {
      throw svp::InvalidArgument(kShapes, fmt::format("dimension {} is given twice", name), "give it once");
    }
    text.remove_prefix(comma);
    if (text.empty()) break;
    text.remove_prefix(1);
    if (text.empty()) {
      throw svp::InvalidArgument(kShapes, "nothing stands behind the last comma", "leave the comma out");
    }
  }
  return extents;
}

std::shared_ptr<const svp::Kernel> find_kernel(const std::string& name) {
  const fs::path path(name);
  if (path.extension() == ".img") return svp::load_binary_or_image(path);
  if (path.has_parent_path()) {
    throw svp::InvalidArgument("kernel", fmt::format("'{}' is neither a name nor a kernel image", name),
                               "give a kernel of the firmware (matmul), or the path of a NAME.img");
  }
  return svp::kernel_named(name, svp::kernels_of_this_build());
}

struct WrittenFile {
  std::string name;
  std::uintmax_t bytes;
};

std::vector<WrittenFile> files_of(const fs::path& directory) {
  const svp::spyrecode::Directory opened(directory);
  const auto json = opened.read_all(svp::spyrecode::kFileName, svp::spyrecode::kMostFileBytes);
  std::vector<WrittenFile> files{{svp::spyrecode::kFileName, json.identity.bytes}};
  const SpyreCode code = svp::spyrecode::parse({reinterpret_cast<const char*>(json.bytes.data()), json.bytes.size()});
  for (const auto& init : code.init) files.push_back({init.file, init.size});
  return files;
}

// ---- show -----------------------------------------------------------------------------------------------------------

// A directory as far as it can be read: the binary of a step is empty when it is none.
struct Shown {
  fs::path path;
  SpyreCode code;
  std::optional<std::string> refused;  // why this runtime does not run it
  std::vector<svp::Job> jobs;          // one per ComputeOnDevice, when it does
};

Shown read_directory(const std::string& name) {
  const svp::spyrecode::Directory directory(name);
  const auto json = directory.read_all(svp::spyrecode::kFileName, svp::spyrecode::kMostFileBytes);
  Shown shown{.path = directory.path(),
              .code = svp::spyrecode::parse({reinterpret_cast<const char*>(json.bytes.data()), json.bytes.size()}),
              .refused = {},
              .jobs = {}};
  try {
    shown.jobs = svp::jobs_of(shown.code, [&](const svp::spyrecode::InitTransfer& init) {
      return directory.read(init.file, init.size).bytes;
    });
  } catch (const svp::InvalidPlan& error) {
    shown.refused = error.info().message;
  }
  return shown;
}

bool is_symbolic(const SpyreCode& code) {
  return std::ranges::any_of(code.exec,
                             [](const ExecStep& step) { return std::holds_alternative<ComputeOnHost>(step); });
}

std::string operand_of(const svp::Job& job, std::size_t index) {
  const auto& operand = job.binary()->metadata().operands[index];
  const auto& shape = job.job_plan().compute()->expected_input_shapes[index];
  std::vector<std::string> axes;
  axes.reserve(shape.rank());
  for (std::size_t axis = 0; axis < shape.rank(); ++axis) {
    axes.push_back(fmt::format("{}={}", job.binary()->metadata().dimensions[operand.shape[axis]], shape[axis]));
  }
  return svp::printable(fmt::format("{}[{}]", operand.name, fmt::join(axes, ", ")));
}

const char* access_of(const svp::KernelOperand& operand) {
  if (operand.access == wire::kSegmentUnused) return "none";
  if (!operand.writes()) return "read";
  return (operand.access & wire::kSegmentRead) != 0 ? "read_write" : "write";
}

std::string symbol_text(const svp::spyrecode::Hcm& hcm, const svp::spyrecode::HcmSymbol& symbol) {
  const std::string tensor =
      fmt::format("{} of tensor {}", svp::spyrecode::name_of(symbol.kind), hcm.inputs[symbol.input]);
  return svp::spyrecode::has_axis(symbol.kind) ? fmt::format("{}, axis {}", tensor, symbol.axis) : tensor;
}

std::string place(std::uint64_t address) { return fmt::format("P + {}", address - svp::spyrecode::kProgramBase); }

void print_symbols(const ComputeOnHost& host) {
  try {
    const auto hcm = svp::spyrecode::parse_hcm(host.hcm, "hcm");
    for (std::size_t i = 0; i < hcm.symbols.size(); ++i) {
      fmt::print("      symbol {:<3} {}\n", i, symbol_text(hcm, hcm.symbols[i]));
    }
  } catch (const svp::InvalidPlan&) {
    fmt::print("      hcm is not of this card\n");
  }
}

// The operands that are tensors of the launch: of a device program the driver adds the others.
struct Tensors {
  std::size_t first;
  std::size_t count;
};
Tensors tensors_of(const svp::Job& job) {
  if (const auto& program = job.device_program(); program != nullptr) return {1, program->arguments().size()};
  return {0, job.binary()->metadata().operands.size()};
}

// To a device program a tensor is so many bytes.
std::string tensor_text(const svp::Job& job, std::size_t operand) {
  const auto& metadata = job.binary()->metadata().operands[operand];
  if (const auto& program = job.device_program(); program != nullptr) {
    return fmt::format("{} bytes, {}", program->arguments()[operand - 1].bytes, access_of(metadata));
  }
  return fmt::format("{}, {}, {}", operand_of(job, operand), svp::name(metadata.dtype), access_of(metadata));
}

void print_binary(const svp::Job& job) {
  const std::string name = svp::printable(job.binary()->name());
  if (const auto& program = job.device_program(); program != nullptr) {
    fmt::print("      device program {}, {} operations, {} bytes\n", name, program->header().operation_count,
               program->bytes().size());
  } else {
    fmt::print("      kernel {}, image of {} bytes\n", name, job.binary()->image().size());
  }
}

// `job` is the one of a ComputeOnDevice; null when the directory cannot be run.
void print_step(const ExecStep& step, const svp::Job* job) {
  if (const auto* host = std::get_if<ComputeOnHost>(&step)) {
    fmt::print("ComputeOnHost    '{}', {} bytes from {}\n", host->ohandle, host->size,
               host->ihandle.empty() ? fmt::format("{} addresses", svp::spyrecode::address_count(*host))
                                     : "'" + host->ihandle + "'");
    print_symbols(*host);
  } else if (const auto* transfer = std::get_if<DataTransfer>(&step)) {
    const bool to_device = transfer->direction == svp::spyrecode::TransferDirection::ToDevice;
    fmt::print("DataTransfer     {} bytes, '{}' {} {}\n", transfer->size, transfer->host_handle,
               to_device ? "to" : "from", place(transfer->dev_ptr));
  } else {
    const auto& compute = std::get<ComputeOnDevice>(step);
    fmt::print("ComputeOnDevice  {}{}\n", place(compute.job_bin_ptr),
               compute.name.empty() ? "" : " '" + compute.name + "'");
    if (job == nullptr) return;
    print_binary(*job);
    const auto [first, count] = tensors_of(*job);
    for (std::size_t i = first; i < first + count; ++i) {
      fmt::print("      tensor {}: {}\n", i - first, tensor_text(*job, i));
    }
  }
}

void print_directory(const Shown& shown) {
  fmt::print("{}\n", shown.path.string());
  fmt::print("  symbolic arguments {}\n", is_symbolic(shown.code) ? "on" : "off");
  fmt::print("  Allocate         {} bytes at P = {}\n", shown.code.allocate_bytes, svp::spyrecode::kProgramBase);
  for (const auto& init : shown.code.init) {
    fmt::print("  InitTransfer     {} bytes of {} to {}\n", init.size, init.file, place(init.dev_ptr));
  }
  std::size_t job = 0;
  for (std::size_t i = 0; i < shown.code.exec.size(); ++i) {
    const bool computes = std::holds_alternative<ComputeOnDevice>(shown.code.exec[i]);
    fmt::print("  {:>2}  ", i);
    print_step(shown.code.exec[i], computes && job < shown.jobs.size() ? &shown.jobs[job] : nullptr);
    job += computes ? 1 : 0;
  }
  if (shown.refused) fmt::print("  can not be run: {}\n", svp::printable(*shown.refused));
}

// ---- show as JSON ---------------------------------------------------------------------------------------------------

ordered_json json_of_program(const svp::Job& job) {
  ordered_json arguments = ordered_json::array();
  for (std::size_t i = 0; i < job.device_program()->arguments().size(); ++i) {
    arguments.push_back({{"bytes", job.device_program()->arguments()[i].bytes},
                         {"access", access_of(job.binary()->metadata().operands[i + 1])}});
  }
  return {{"device_program", job.binary()->name()},
          {"program_bytes", job.device_program()->bytes().size()},
          {"workspace_bytes", job.device_program()->workspace_bytes()},
          {"scratchpads_bytes", job.device_program()->scratchpads_bytes()},
          {"operations", job.device_program()->header().operation_count},
          {"arguments", std::move(arguments)}};
}

ordered_json json_of(const svp::Job& job) {
  if (job.device_program() != nullptr) return json_of_program(job);
  ordered_json operands = ordered_json::array();
  for (std::size_t i = 0; i < job.binary()->metadata().operands.size(); ++i) {
    const auto& operand = job.binary()->metadata().operands[i];
    const auto extents = job.job_plan().compute()->expected_input_shapes[i].extents();
    operands.push_back({{"name", operand.name},
                        {"access", access_of(operand)},
                        {"dtype", svp::name(operand.dtype)},
                        {"shape", std::vector<std::int64_t>(extents.begin(), extents.end())}});
  }
  return {{"kernel", job.binary()->name()},
          {"image_bytes", job.binary()->image().size()},
          {"correction_bytes", job.program_correction_metadata().max_bytes},
          {"operands", std::move(operands)}};
}

void print_as_json(const Shown& shown) {
  // Both are JSON of this format: the file's own words, and what they mean here.
  ordered_json object = {{"directory", shown.path.string()},
                         {"symbolic", is_symbolic(shown.code)},
                         {"spyrecode", ordered_json::parse(svp::spyrecode::to_json(shown.code))}};
  ordered_json jobs = ordered_json::array();
  for (const svp::Job& job : shown.jobs) jobs.push_back(json_of(job));
  object["jobs"] = std::move(jobs);
  object["runs"] = !shown.refused.has_value();
  if (shown.refused) object["refused"] = *shown.refused;
  print_json(object);
}

}  // namespace

int spyrecode_make(const SpyrecodeMakeOptions& options) {
  const svp::CompiledKernel kernel(find_kernel(options.kernel), parse_shapes(options.shapes));
  const auto arguments = options.no_symbolic ? svp::SymbolicArguments::Off : svp::SymbolicArguments::On;
  svp::ExecutionPlan({svp::Job(kernel)}).write_directory(options.output, arguments);
  const auto files = files_of(options.output);
  if (options.json) {
    ordered_json list = ordered_json::array();
    for (const auto& file : files) list.push_back({{"name", file.name}, {"bytes", file.bytes}});
    print_json({{"directory", options.output}, {"files", std::move(list)}});
    return kOk;
  }
  for (const auto& file : files)
    fmt::print("{:>10}  {}\n", file.bytes, (fs::path(options.output) / file.name).string());
  return kOk;
}

int spyrecode_show(const SpyrecodeShowOptions& options) {
  const Shown shown = read_directory(options.directory);
  if (options.json) {
    print_as_json(shown);
  } else {
    print_directory(shown);
  }
  return shown.refused ? kNotAsWanted : kOk;
}

}  // namespace cli
