#!/usr/bin/env python3
"""Kill a training again and again, continue it each time, and compare the result with that of a training left in peace.

    python tests/kills.py KILLS [SEED]    # prints how many kills it took, and how many bits differ

A child process trains with dropout and two batches an update; it is killed by SIGKILL after a random time, and another one
goes on from what it left. Every third kill waits for a checkpoint that is just being written. When a training comes to its
end, its weights and losses are compared with those of the one left in peace, and the next begins.
"""
import json, os, random, shutil, signal, sys, time
from pathlib import Path
from tempfile import TemporaryDirectory
os.environ |= dict(OMP_NUM_THREADS='1', IN_TEST='1') # forking is safe as long as this process starts no threads
import torch
from transformer_nb.data import TokenBatches
from transformer_nb.model import Transformer, TransformerConfig
from transformer_nb.training import Trainer, TrainingConfig

STEPS = 40

def train(folder):
    "Forty updates of a very small model on random pairs, seven updates an epoch"
    rng = random.Random(0)
    pairs = [tuple([rng.randrange(4, 50) for _ in range(rng.randint(2, 9))] for _ in range(2)) for _ in range(200)]
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(50, d_model=16, d_ff=32, n_heads=2, n_encoder_layers=1, n_decoder_layers=1, dropout=0.3))
    batches = TokenBatches(pairs, 150)
    config = TrainingConfig(max_steps=STEPS, warmup_steps=9, grad_accum_steps=2, valid_every=4, save_every=3, average=4)
    trainer = Trainer(model, batches, list(batches.epoch(0))[:2], config, folder)
    trainer.resume()
    trainer.run()
    torch.save({k: v for k, v in model.state_dict().items()}, folder/'result.pt')

def start(folder):
    pid = os.fork()
    if pid == 0:
        status = 1
        try: train(folder); status = 0
        finally: os._exit(status)
    return pid

def writing(folder, pid): # is the process in the middle of a file?
    return any(folder.rglob(f'.*.{pid}.tmp'))

def kill_some_time(pid, folder, rng, in_writing, seconds): # True if it was killed before it came to its end
    wait = time.perf_counter() + rng.uniform(0, seconds)
    while True:
        if os.waitpid(pid, os.WNOHANG)[0]: return False
        if time.perf_counter() > wait and (not in_writing or writing(folder, pid)): break
        time.sleep(0.0002)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return True

def main(n_kills, seed=0):
    rng, kills, during, runs, differing = random.Random(seed), 0, 0, 0, 0
    with TemporaryDirectory() as d:
        peace, folder = Path(d)/'peace', Path(d)/'killed'
        began = time.perf_counter()
        _, status = os.waitpid(start(peace), 0)
        assert status == 0, 'the training left in peace failed'
        seconds = (time.perf_counter() - began) / 3
        expected = torch.load(peace/'result.pt')
        losses = lambda f: [line['train_loss'] for line in map(json.loads, (f/'metrics.jsonl').read_text().splitlines()) if 'step' in line]
        while kills < n_kills or folder.exists():
            pid = start(folder)
            if kills < n_kills and kill_some_time(pid, folder, rng, kills % 3 == 2, seconds):
                kills, during = kills + 1, during + writing(folder, pid)
                continue
            if kills == n_kills: os.waitpid(pid, 0)
            runs += 1
            assert (folder/'result.pt').exists(), 'a continued training failed'
            assert not any(folder.rglob('.*.tmp')), 'half a file is left behind'
            result = torch.load(folder/'result.pt')
            differing += sum(int((result[k] != expected[k]).sum()) for k in expected) + (losses(folder) != losses(peace))
            shutil.rmtree(folder)
    print(f'{kills} kills, {during} of them while a file was being written, {runs} trainings completed, {differing} numbers differ')
    return differing

if __name__ == '__main__': sys.exit(bool(main(*map(int, sys.argv[1:]))))
