#!/usr/bin/env python3
"""Kill a training again and again, resume it each time, and compare the result.

    python tools/kills.py KILLS [SEED]  # prints how many kills, and how many numbers differ

A child process trains with dropout and two batches per step. It is killed by SIGKILL after
a random time, and another one goes on from what it left. Every third kill waits until a
checkpoint is being written. When a training comes to its end, its weights and losses are
compared with those of a training that was left in peace, and the next begins.
"""
import json, os, random, shutil, signal, sys, time
from pathlib import Path
from tempfile import TemporaryDirectory
# forking is safe as long as this process starts no threads
os.environ |= dict(OMP_NUM_THREADS='1', IN_TEST='1')
import torch
import torch._dynamo # noqa: F401 # or every child does it at its first step
from transformer_nb.data import TokenBatches
from transformer_nb.model import Transformer, TransformerConfig
from transformer_nb.training import Trainer, TrainingConfig

MODEL = TransformerConfig(50, d_model=16, d_ff=32, n_heads=2, n_encoder_layers=1,
                          n_decoder_layers=1, dropout=0.3)
TRAINING = TrainingConfig(max_steps=40, warmup_steps=9, grad_accum_steps=2, valid_every=4,
                          save_every=3, average=4)

def random_sentence(rng): return [rng.randrange(4, 50) for _ in range(rng.randint(2, 9))]

def train(folder):
    "Forty steps of a very small model on random pairs, seven steps per epoch"
    rng = random.Random(0)
    pairs = [(random_sentence(rng), random_sentence(rng)) for _ in range(200)]
    torch.manual_seed(0)
    model = Transformer(MODEL)
    batches = TokenBatches(pairs, 150)
    valid = list(batches.epoch(0))[:2]
    trainer = Trainer(model, batches, valid, TRAINING, folder)
    trainer.resume()
    trainer.run()
    torch.save(dict(model.state_dict()), folder/'result.pt')

def start(folder):
    "The id of a new process that trains"
    pid = os.fork()
    if pid: return pid
    status = 1
    try:
        train(folder)
        status = 0
    finally: os._exit(status)

def is_writing(folder, pid): # is the process in the middle of a file?
    return any(folder.rglob(f'.*.{pid}.tnb.tmp'))

def kill_some_time(pid, folder, rng, while_writing, seconds):
    "True if it was killed before it came to its end"
    earliest = time.perf_counter() + rng.uniform(0, seconds)
    while True:
        ended, _ = os.waitpid(pid, os.WNOHANG)
        if ended: return False
        is_time = time.perf_counter() > earliest
        if is_time and (not while_writing or is_writing(folder, pid)): break
        time.sleep(0.0002)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return True

def losses(folder):
    lines = map(json.loads, (folder/'metrics.jsonl').read_text().splitlines())
    return [line['train_loss'] for line in lines if 'step' in line]

def n_differing(folder, peace):
    "How many weights differ, and one more if the losses do"
    assert (folder/'result.pt').exists(), 'a resumed training failed'
    assert not any(folder.rglob('.*.tmp')), 'half a file is left behind'
    expected, result = torch.load(peace/'result.pt'), torch.load(folder/'result.pt')
    weights = sum(int((result[name] != w).sum()) for name, w in expected.items())
    return weights + (losses(folder) != losses(peace))

def leave_in_peace(folder):
    "Seconds in which a child can be killed while it trains"
    began = time.perf_counter()
    _, status = os.waitpid(start(folder), 0)
    assert status == 0, 'the training left in peace failed'
    return (time.perf_counter() - began) / 3

def main(n_kills, seed=0):
    rng = random.Random(seed)
    kills = kills_writing = runs = differing = 0
    with TemporaryDirectory() as scratch:
        peace, folder = Path(scratch)/'peace', Path(scratch)/'killed'
        seconds = leave_in_peace(peace)
        while kills < n_kills or folder.exists():
            pid = start(folder)
            while_writing = kills % 3 == 2
            if kills == n_kills: os.waitpid(pid, 0)
            elif kill_some_time(pid, folder, rng, while_writing, seconds):
                kills += 1
                kills_writing += is_writing(folder, pid)
                continue
            runs += 1
            differing += n_differing(folder, peace)
            shutil.rmtree(folder)
    print(f'{kills} kills, {kills_writing} of them while a file was being written, '
          f'{runs} trainings completed, {differing} numbers differ')
    return differing

if __name__ == '__main__': sys.exit(bool(main(*map(int, sys.argv[1:]))))
