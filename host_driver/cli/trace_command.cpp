// SPDX-License-Identifier: Apache-2.0
// `spyre trace`: runs a command and draws what its driver and its card did.
#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <ostream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "host_driver/base/output_file.hpp"
#include "host_driver/cli/child_process.hpp"
#include "host_driver/cli/commands.hpp"
#include "host_driver/cli/exit_codes.hpp"
#include "host_driver/cli/signals.hpp"
#include "host_driver/trace/perfetto.hpp"
#include "host_driver/trace/recorder.hpp"

namespace cli {

namespace {

svp::Error cannot_write(const std::filesystem::path& path, const std::string& why) {
  return svp::Error(svp::refused_by_driver(path.string(), path.string() + " can not be written: " + why,
                                           "give another file with -o, or another folder in TMPDIR"));
}

// A folder of its own for the traces of the command's processes; gone with the object.
class RecordingFolder {
 public:
  RecordingFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "spyre-trace-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw cannot_write(name, std::generic_category().message(errno));
    path_ = name;
  }
  ~RecordingFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  RecordingFolder(const RecordingFolder&) = delete;
  RecordingFolder& operator=(const RecordingFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

svp::trace::Drawn write_page(const std::filesystem::path& path, const std::vector<svp::trace::ProcessTrace>& traces) {
  svp::trace::Drawn drawn;
  svp::value_or_throw(
      svp::write_output_file(path, [&](std::ostream& out) { drawn = svp::trace::write_perfetto(out, traces); }));
  return drawn;
}

void tell(const std::filesystem::path& path, std::size_t processes, const svp::trace::Drawn& drawn) {
  fmt::print(stderr,
             "spyre: {}: {} launches, {} blocks, {} slices of cores, {} marks, {} requests to the array, of {} "
             "processes; times of the card are exact to {:.1f} us\n",
             path.string(), drawn.launches, drawn.blocks, drawn.slices, drawn.marks, drawn.array_requests, processes,
             drawn.clock_error_us);
  if (drawn.lost != 0) {
    fmt::print(stderr, "spyre: {} entries found no room: give --records\n", drawn.lost);
  }
  if (const auto out = drawn.unwritten + drawn.damaged + drawn.unplaced; out != 0) {
    fmt::print(
        stderr,
        "spyre: {} entries are left out: a process ended while it wrote them, or no block tells when they were\n", out);
  }
  fmt::print(stderr, "spyre: open it at ui.perfetto.dev (it stays on your machine), or in chrome://tracing\n");
}

}  // namespace

int trace(const TraceOptions& options) {
  const SignalDescriptor signals({SIGTERM, SIGINT, SIGHUP, SIGQUIT});
  const RecordingFolder folder;
  int error = 0;
  auto child = ChildProcess::start(options.command,
                                   {{svp::trace::kFolderVariable, folder.path().string()},
                                    {svp::trace::kRecordsVariable, std::to_string(options.records)}},
                                   signals.mask_before(), &error);
  if (!child) {
    fmt::print(stderr, "spyre: {}\n", svp::describe(child.error()));
    return error == ENOENT ? kNotFound : kNotExecutable;
  }
  const int code = child->await_end(signals);
  const auto traces = svp::value_or_throw(svp::trace::read_folder(folder.path()));
  if (traces.empty()) {
    fmt::print(stderr, "spyre: the command opened no card: {} is not written\n", options.output);
    return code;
  }
  tell(options.output, traces.size(), write_page(options.output, traces));
  return code;
}

}  // namespace cli
