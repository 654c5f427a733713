#include "runtime/worker/rival.h"

namespace tilewright::cuda {

std::unique_ptr<GpuRival> make_rival(Device& device, GpuPeer& peer, const Workload& w,
                                     OperandSet& host, const DeviceOperands& operands,
                                     const Reference& reference, PeerResult& told) {
  auto rival = std::make_unique<GpuRival>();
  rival->operands = PeerOperands::make(device, w, host, operands, told.problem);
  if (!rival->operands) return nullptr;
  rival->problem = peer.prepare(device, *rival->operands, told.problem);
  if (!rival->problem) return nullptr;
  told.note = rival->problem->choice();
  if (const std::string& weight = rival->operands->product().stands_for; !weight.empty()) {
    told.note = weight + "; " + told.note;
    return rival;
  }
  HostArray output("C", host.output().elem(), host.output().shape());
  rival->operands->poison_output(output);
  rival->problem->launch();
  device.wait(peer.name());
  bool inside = rival->operands->fetch_output(output);
  CheckResult check = compare(output, reference);
  if (!inside || check.verdict != Verdict::Ok) {
    told.problem =
        inside ? "its result is another: " + check.message : "it writes beside its output";
    return nullptr;
  }
  told.checked = true;
  return rival;
}

// Flushing takes longer than what is queued behind it takes to get there, so that no launch is waited
// for between the events.
Timing time_on_device(Device& device, const std::function<void()>& launch,
                      const TimingOptions& asked) {
  double seconds = 0;
  auto run = [&] {
    device.flush_l2();
    seconds += device.milliseconds("timing the kernel", launch) * 1e-3;
  };
  TimingOptions options = asked;
  options.cache = CacheState::Warm;  // the processor's caches play no part
  Timing timing = measure(run, options, [&] { return seconds; });
  timing.cache = CacheState::Cold;
  return timing;
}

}  // namespace tilewright::cuda
