// SPDX-License-Identifier: Apache-2.0
// The subcommands of `spyre`. Each returns the process's exit code; errors travel as exceptions to main().
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "host_driver/cli/card_shape.hpp"

namespace cli {

struct RunMatmulOptions {
  std::int64_t m = 4096;
  std::int64_t n = 1024;
  std::int64_t k = 1024;
  std::int64_t tile = 0;  // rows of A that the kernel is compiled for; 0: min(m, 1024)
  std::uint64_t seed = 0;
  bool seed_given = false;
  unsigned cores = 0;     // 0: as many as make sense on this machine
  unsigned function = 0;  // 0: PF; n: VF n
  bool own_card = false;  // cores or function were given: not the environment's device
  bool json = false;
};

// Multiplies random fp16 matrices on the environment's device or on a card of its own through the tiled launch, checks
// every element bit for bit against the golden model and within its error bound against double precision. 1 when
// anything differs.
int run_matmul(const RunMatmulOptions& options);

struct RunOpOptions {
  std::string op{};
  std::vector<std::string> shapes{};  // "64x128"; one serves every input
  std::string dtype = "float16";
  std::vector<double> numbers{};
  std::vector<std::int64_t> integers{};
  std::uint64_t seed = 0;
  bool seed_given = false;
  unsigned repeat = 20;  // launches that are timed
  unsigned cores = 0;
  unsigned function = 0;
  bool own_card = false;
  bool verify = false;
  bool json = false;
};

// One operation on random data: times, and with `verify` the result against the golden model (equal) and against double
// precision (within the bound of `spyre ops`). 1 when an element differs from the one or is beyond the other.
int run_op(const RunOpOptions& options);

struct RunTransformerOptions {
  unsigned layers = 2;
  unsigned heads = 4;
  unsigned tokens = 32;
  std::uint64_t seed = 1;
  unsigned cores = 0;  // not 0: a card of its own
  bool json = false;
};

// A small decoder, token by token, its logits against double precision. 1 when one is beyond the bound.
int run_transformer(const RunTransformerOptions& options);

struct OpsOptions {
  bool json = false;
};

// The table of operations. 0.
int ops(const OpsOptions& options);

struct LayoutOptions {
  std::string size{};  // "512,256"; empty: a scalar
  std::optional<std::string> stride{};
  std::string dtype = "float16";
  std::optional<std::string> dim_order{};
  std::optional<std::string> device_size{};  // both or none
  std::optional<std::string> stride_map{};
  bool dma = false;
  bool json = false;
};

// Explains the layout of a tensor on the card; with `dma` also the loops of a transfer from the host. 0.
int layout(const LayoutOptions& options);

struct ConvertOptions {
  std::string to{};    // a format; or …
  std::string from{};  // … this one
  std::vector<std::string> values{};
};

// Prints one code (`to`) or one number (`from`) per value. 0.
int convert(const ConvertOptions& options);

struct BootOptions {
  CardShape shape{};
  bool self_test = false;
};

// Boots a card, shows the time line of its boot; with self_test also what works and what is refused. 1 when a step
// fails.
int boot(const BootOptions& options);

struct ServeOptions {
  std::string name{};
  std::string group{};  // whose members may be tenants; empty: this user alone
  CardShape shape{};
};

// The same in a process of its own, which goes on: `words` is its command line. Returns when the card is ready: 0; else
// with what it said, and its exit code.
int serve_detached(const ServeOptions& options, const std::vector<std::string>& words);

// Boots a card under a name and stays until a signal or `spyre stop` ends it; one line per change of an owner. 0.
int serve(const ServeOptions& options);

struct DevicesOptions {
  bool json = false;
};

// The devices that a program sees with this environment. No card: none, and 0.
int devices(const DevicesOptions& options);

struct EnvOptions {
  bool build = false;  // also what a build of torch-spyre reads
  bool json = false;
};

// The variables with which torch-spyre finds this installation, as commands of a shell. 0.
int env(const EnvOptions& options);

struct InspectOptions {
  std::string card{};
  bool json = false;
};

// Everything that a card tells about itself. 0.
int inspect(const InspectOptions& options);

struct SmiOptions {
  double loop_seconds = 0;  // 0: once
  bool json = false;
  bool csv = false;
};

// The running cards and their functions: owner, memory, part of the cores, launches. 0; with `loop_seconds` when a
// signal comes.
int smi(const SmiOptions& options);

struct StatsOptions {
  std::string card{};
  std::string function{};  // empty: all
  bool json = false;
};

// Everything that a card has counted. 0.
int stats(const StatsOptions& options);

struct LogsOptions {
  std::string card{};
  bool follow = false;
  bool console = false;   // what the firmware wrote, instead of what the broker says
  std::size_t lines = 0;  // the last ones only; 0: all
};

// 0; with `follow` when the card ends, or a signal comes.
int logs(const LogsOptions& options);

struct StopOptions {
  std::string card{};
  bool all = false;
};

// With `all`, 1 when a card could not be stopped.
int stop(const StopOptions& options);

struct ResetOptions {
  std::string card{};
  // One of these.
  std::string function{};
  bool firmware = false;
  bool card_reset = false;
  bool power_cycle = false;
};

// Runs a reset level of the escalation through the card's broker, and those above it when it does not help; prints what
// it took. 0.
int reset(const ResetOptions& options);

struct DebugOptions {
  std::string card{};      // attach to it
  std::string core{};      // open this file
  std::string collect{};   // write a core of this card …
  std::string output{};    // … here
  std::string firmware{};  // ELF file; empty: found by find_firmware()
  bool now = false;        // collect: what the harts do now, even when there is a record
  bool batch = false;      // threads and back traces, then the end
  bool json = false;       // core: the record as JSON, no debugger
};

// The debugger's exit code; with `collect` or `json` 0.
int debug(const DebugOptions& options);

struct ExecOptions {
  unsigned cards = 1;
  CardShape shape{};
  bool vfs_given = false;
  bool verbose = false;
  std::vector<std::string> command{};
};

// Boots cards in a runtime folder of their own, runs the command against them, stops them. The command's exit code;
// 128 + n when signal n ended it; 127 when there is no such program, 126 when it could not be executed. 125: spyre
// itself failed (an svp::Error is that, see main.cpp). Signals are passed on to the command.
int exec(const ExecOptions& options);

struct TraceOptions {
  std::string output = "trace.json";
  std::uint64_t records = 0;  // room of each process
  std::vector<std::string> command{};
};

// Runs the command with SPYRE_TRACE, then writes what its processes recorded as a page for Perfetto. Exit codes as
// exec(). Throws svp::Error when the page cannot be written.
int trace(const TraceOptions& options);

struct FaultListOptions {
  bool json = false;
};

// The catalogue of fault points. 0.
int fault_list(const FaultListOptions& options);

struct FaultRunOptions {
  std::string script{};
  std::uint64_t seed = 0;
  bool seed_given = false;  // else the script's own
  unsigned seconds = 10;
  CardShape shape{};
  bool json = false;
  std::string bundles{};  // empty: no failure bundle
};

// Boots a card, lets the script loose on a standard workload on VF 1 while VF 2 works beside it, prints the evidence
// and how everything ended. 0: every fault fired, and everything ended typed with right results; 1: something did not;
// 2: the script was refused, or it could not be armed; 4: INVALID, a fault did not fire.
int fault_run(const FaultRunOptions& options);

struct ReplayOptions {
  std::string bundle{};
};

// Runs the fault script of a failure bundle again with its seed, and prints both runs side by side; those of a campaign
// and of a soak are the validation program's. 0: everything comparable is the same; 1: something differs. A file that
// is no bundle is refused: svp::Error.
int replay(const ReplayOptions& options);

// The campaign, the soak and their failure bundles are test equipment, in a program of its own: this process becomes
// it. `words` as of spyre's command line: {"soak", "--minutes", "10"}. Throws svp::Error when it is not installed, or
// cannot be executed.
[[noreturn]] void become_validation(const std::vector<std::string>& words);

struct SpyrecodeMakeOptions {
  std::string kernel{};  // a kernel of the firmware, or the path of an image (NAME.img)
  std::string shapes{};  // "M=64,N=128"
  std::string output{};
  bool no_symbolic = false;
  bool json = false;
};

// Writes a SpyreCode directory that runs the kernel with these extents. 0.
int spyrecode_make(const SpyrecodeMakeOptions& options);

struct SpyrecodeShowOptions {
  std::string directory{};
  bool json = false;
};

// Explains a SpyreCode directory. 0; 1 when this runtime refuses to run it. What is no such directory is refused:
// svp::Error.
int spyrecode_show(const SpyrecodeShowOptions& options);

struct SdscExplainOptions {
  std::string directory{};
  bool program = false;  // also the operations that the bundle becomes
};

// A bundle of torch-spyre as a person reads it. 0; 1 when the compiler refuses it, which is said at the end. A bundle
// that cannot be read is refused: svp::Error.
int sdsc_explain(const SdscExplainOptions& options);

struct SdscCheckOptions {
  std::string directory{};
  bool json = false;
};

// Everything that the compiler checks; nothing is written. 0; 1 when it refuses the bundle.
int sdsc_check(const SdscCheckOptions& options);

struct SdscRunOptions {
  std::string directory{};
  std::vector<std::string> arguments{};  // "0=x.npy"
  std::vector<std::string> outputs{};    // "2=r.npy"
  std::vector<std::string> shapes{};     // "2=float16:64x128": type and shape of a result
  bool card = false;                     // else the golden model
  bool json = false;
};

// Compiles the bundle and executes it on arrays in files. 0.
int sdsc_run(const SdscRunOptions& options);

int version(bool json);

}  // namespace cli
