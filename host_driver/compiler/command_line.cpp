// SPDX-License-Identifier: Apache-2.0
#include "host_driver/compiler/command_line.hpp"

#include <cstdio>
#include <exception>
#include <string_view>

namespace svp::compiler {

namespace {

constexpr const char* kUsage =
    "dxp_standalone [--bundle] -d DIR, or dbo-opt [--device=...] --export-dir=DIR -kEmitSpyreCode DIR/bundle.mlir";

[[noreturn]] void refuse_call(const std::string& argument, const std::string& what) {
  throw InvalidArgument(argument, argument + ": " + what, kUsage);
}

// Whether the argument says so of a pass.
bool disables_pass(const std::string& argument, Passes& passes) {
  constexpr std::string_view kDisable = "--disable-pass=";
  if (!argument.starts_with(kDisable)) return false;
  if (argument.substr(kDisable.size()) != "forward-copies") refuse_call(argument, "names no pass");
  passes.forward_copies = false;
  return true;
}

CompilerCall parse_dxp(const std::vector<std::string>& arguments) {
  CompilerCall call;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument == "--bundle" || disables_pass(argument, call.passes)) continue;
    if (argument != "-d") refuse_call(argument, "is not known");
    if (++i == arguments.size()) refuse_call("-d", "names no directory");
    if (!call.bundle.empty()) refuse_call("-d", "stands twice");
    call.bundle = call.target = arguments[i];
  }
  if (call.bundle.empty()) refuse_call("-d", "is missing");
  return call;
}

CompilerCall parse_dbo(const std::vector<std::string>& arguments) {
  constexpr std::string_view kExport = "--export-dir=", kDevice = "--device=";
  CompilerCall call;
  bool emits = false;
  for (const std::string& argument : arguments) {
    if (argument == "--from-ktir") refuse_call(argument, "KTIR is not compiled, only bundles of SDSCs are");
    if (argument.starts_with(kDevice) || disables_pass(argument, call.passes)) continue;
    if (argument == "-kEmitSpyreCode" || argument == "--kEmitSpyreCode") {
      emits = true;
    } else if (argument.starts_with(kExport)) {
      call.target = argument.substr(kExport.size());
    } else if (argument.starts_with("-")) {
      refuse_call(argument, "is not known");
    } else if (std::filesystem::path(argument).filename() != kBundleFileName || !call.bundle.empty()) {
      refuse_call(argument, "is not the one bundle.mlir");
    } else {
      call.bundle = std::filesystem::path(argument).parent_path();
      if (call.bundle.empty()) call.bundle = ".";
    }
  }
  if (!emits) refuse_call("-kEmitSpyreCode", "is missing, and nothing else can be made");
  if (call.target.empty()) refuse_call("--export-dir=DIR", "is missing");
  if (call.bundle.empty()) refuse_call("DIR/bundle.mlir", "is missing");
  return call;
}

int say(const std::string& name, const ErrorInfo& error, int code) {
  std::fprintf(stderr, "%s: %s (next: %s)\n", name.c_str(), error.message.c_str(), error.next_step.c_str());
  return code;
}

}  // namespace

CompilerCall parse_call(const std::string& name, const std::vector<std::string>& arguments) {
  const bool dbo = std::filesystem::path(name).filename() == "dbo-opt";
  return dbo ? parse_dbo(arguments) : parse_dxp(arguments);
}

int run_compiler(const std::string& name, const std::vector<std::string>& arguments) {
  const std::string called = std::filesystem::path(name).filename();
  try {
    const CompilerCall call = parse_call(name, arguments);
    compile_directory(call.bundle, call.target, call.passes);
    return kCompiled;
  } catch (const InvalidPlan& refused) {
    return say(called, refused.info(), kBundleRefused);
  } catch (const InvalidArgument& refused) {
    return say(called, refused.info(), kBadUsage);
  } catch (const Error& error) {
    return say(called, error.info(), kDefect);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", called.c_str(), error.what());
    return kDefect;
  }
}

}  // namespace svp::compiler
