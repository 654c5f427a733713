"""Workers of tune-cli that SSH, Slurm or Ray carry, whose servers this test starts on loopback.

usage: fleet_test.py ssh|slurm|ray TUNE_CLI"""
import contextlib
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time

from support import ROOT, SKIPPED

SPEC = "matmul:m=32,n=48,k=16"


def skip(reason):
    print(f"skipped: {reason}: scripts/deps --fleet installs it")
    sys.exit(SKIPPED)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def start(stack, *command, **options):
    """A server, until the stack ends."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, **options)

    def end():
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    stack.callback(end)
    return process


def wait_for(is_ready, what, log=None):
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if is_ready():
            return
        time.sleep(0.2)
    sys.exit(f"{what} is not ready after a minute: {log.read_text() if log and log.exists() else ''}")


def listens(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


def tune(tune_cli, folder, workers, environment, count):
    """Runs a search on these workers and checks what it tells."""
    done = subprocess.run(
        [tune_cli, "tune", SPEC, "--threads", "1", "--trials", "6", "--json", "--quiet", "--db",
         f"{folder}/t.db", "--workers", workers],
        capture_output=True, text=True, check=False, env=environment, timeout=500)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    check(told["results"][0], told["fleet"], count)


def check(result, fleet, count):
    assert result["trials"] == 6, result
    assert result["best"]["seconds"] > 0, result
    if fleet is not None:
        assert fleet["workers"] == count, fleet
        assert fleet["lost"] == fleet["refused"] == 0, fleet
    print(f"{count} workers, best {result['best']['seconds']:.3g} s")


def ssh(tune_cli, folder, stack):
    server = shutil.which("sshd", path=os.environ["PATH"] + ":/usr/sbin")
    if not server or not shutil.which("ssh"):
        skip("no sshd")
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    shutil.copy(folder / "user.pub", folder / "authorized")
    port = free_port()
    (folder / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nPidFile none\n"
        f"AuthorizedKeysFile {folder}/authorized\nStrictModes no\nUsePAM no\n"
        f"SetEnv PATH={pathlib.Path(tune_cli).parent}:/usr/bin:/bin\n")
    pathlib.Path("/run/sshd").mkdir(exist_ok=True)
    log = folder / "sshd.log"
    start(stack, server, "-D", "-f", folder / "sshd_config", "-E", log)
    wait_for(lambda: listens(port), "sshd", log)
    # The options of a user's own configuration, for a `ssh` that is first on the PATH.
    (folder / "config").write_text(
        f"Host build1 build2\n  HostName 127.0.0.1\n  Port {port}\n  IdentityFile {folder}/user\n"
        f"  StrictHostKeyChecking no\n  UserKnownHostsFile {folder}/known\n")
    (folder / "bin").mkdir()
    (folder / "bin" / "ssh").write_text(
        f'#!/bin/sh\nexec {shutil.which("ssh")} -F {folder}/config "$@"\n')
    (folder / "bin" / "ssh").chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}"}
    tune(tune_cli, folder, "ssh:build1,build2", environment, 2)


def slurm(tune_cli, folder, stack):
    path = os.environ["PATH"] + ":/usr/sbin"
    programs = {name: shutil.which(name, path=path) for name in ("munged", "slurmctld", "slurmd", "srun")}
    if not all(programs.values()) or os.geteuid() != 0:
        skip("no Slurm")
    host = socket.gethostname().split(".")[0]
    munge = folder / "munge"
    munge.mkdir(mode=0o711)
    (munge / "key").write_bytes(os.urandom(1024))
    (munge / "key").chmod(0o400)
    start(stack, programs["munged"], "--foreground", "--force", f"--key-file={munge}/key",
          f"--socket={munge}/socket", f"--pid-file={munge}/pid", f"--seed-file={munge}/seed",
          f"--log-file={munge}/log", stderr=subprocess.DEVNULL)
    wait_for((munge / "socket").exists, "munged", munge / "log")
    control, node = free_port(), free_port()
    for name in ("state", "spool"):
        (folder / name).mkdir()
    config = folder / "slurm.conf"
    config.write_text(
        f"ClusterName=test\nSlurmctldHost={host}(127.0.0.1)\nSlurmUser=root\nSlurmdUser=root\n"
        f"AuthType=auth/munge\nAuthInfo=socket={munge}/socket\nCredType=cred/munge\n"
        f"SlurmctldPort={control}\nSlurmdPort={node}\nStateSaveLocation={folder}/state\n"
        f"SlurmdSpoolDir={folder}/spool\nSlurmctldPidFile={folder}/ctld.pid\n"
        f"SlurmdPidFile={folder}/d.pid\nProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\n"
        f"SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\nMpiDefault=none\nReturnToService=2\n"
        f"SlurmctldLogFile={folder}/ctld.log\nSlurmdLogFile={folder}/d.log\nJobAcctGatherType=jobacct_gather/none\n"
        f"NodeName={host} NodeAddr=127.0.0.1 CPUs={os.cpu_count()} State=UNKNOWN\n"
        f"PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4\n")
    environment = {**os.environ, "SLURM_CONF": str(config),
                   "PATH": f"{pathlib.Path(tune_cli).parent}:{os.environ['PATH']}"}
    start(stack, programs["slurmctld"], "-D", "-f", config, env=environment, stderr=subprocess.DEVNULL)
    start(stack, programs["slurmd"], "-D", "-f", config, "-N", host, env=environment,
          stderr=subprocess.DEVNULL)

    def is_up():
        state = subprocess.run(["sinfo", "-h", "-o", "%T"], capture_output=True, text=True, check=False,
                               env=environment)
        return state.stdout.strip() in ("idle", "mixed", "allocated")

    wait_for(is_up, "Slurm", folder / "d.log")
    tune(tune_cli, folder, "srun:-n 2 -p all", environment, 2)


def ray(tune_cli, folder, _stack):
    prefix = subprocess.run([ROOT / "scripts" / "ray" / "install", "--prefix"], capture_output=True,
                            text=True, check=True).stdout.strip()
    python = pathlib.Path(prefix, "bin", "python")
    if not python.exists():
        skip("no Ray")
    code = (f"import json, tilewright.ray\n"
            f"print(json.dumps(tilewright.ray.tune({SPEC!r}, workers=2, threads=1, trials=6,"
            f" db={str(folder / 't.db')!r}, actor_options={{'num_cpus': 0.5}}, progress=None)))")
    environment = {**os.environ, "TILEWRIGHT_TUNE_CLI": tune_cli, "RAY_USAGE_STATS_ENABLED": "0",
                   "PATH": f"{python.parent}:{os.environ['PATH']}"}
    for _ in range(3):
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False,
                              env=environment, timeout=500)
        # Ray gives its own agents 30 s, which is too little beside other work.
        if "timed out during startup" not in done.stderr:
            break
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.strip().splitlines()[-1])[0]
    assert result["machine"]["workers"] == 2, result
    check(result, None, 2)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary, contextlib.ExitStack() as exit_stack:
        {"ssh": ssh, "slurm": slurm, "ray": ray}[sys.argv[1]](sys.argv[2], pathlib.Path(temporary), exit_stack)
