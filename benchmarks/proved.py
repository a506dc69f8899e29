"""The table of others' Transformers, and faults put into them.

    python benchmarks/proved.py --peers FOLDER [--only NAME] # lines of results/proved.jsonl
    python benchmarks/proved.py --peers FOLDER --faults      # of faults.jsonl, found?

FOLDER holds the snapshots that the adapters name (address and commit in their first line);
packages of the index must be importable. Each model is asked in a process of its own."""
import argparse, ast, json, os, shutil, tempfile, time, warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
import torch
from transformer_nb.proving import prove as properties
from transformer_nb.proving.command import prove_adapter
from transformer_nb.support.core import InputError, provenance

warnings.simplefilter('ignore')
torch.set_num_threads(1) # a process that forks has one thread

HERE = Path(__file__).parent
RESULTS = HERE.parent/'nbs/results/proved.jsonl'

def told(proof, doc:str|None)->dict: # as JSON
    found = proof.found
    return dict(
        what=doc, identity=proof.identity(),
        difference=None if found.unexplained else found.difference,
        own_tables=found.own_tables, unexplained=found.unexplained, rows=found.rows,
        verdicts=[vars(v) for v in proof.verdicts],
        seconds=round(time.process_time() - BEGIN, 1))

def ask(name:str, peers:Path, only:list|None=None)->dict:
    "In a process of its own, since many have modules of one name"
    with ProcessPoolExecutor(1, get_context('fork')) as pool:
        try: return pool.submit(_ask, name, peers, only).result()
        except Exception as e: return dict(refused=f'{type(e).__name__}: {e}')

def _ask(name:str, peers:Path, only:list|None)->dict:
    global BEGIN
    BEGIN = time.process_time()
    os.environ['PEERS'] = str(peers)
    path = HERE/f'adapters/{name}.py'
    try: proof = prove_adapter(path, only=only)
    except InputError as e: return dict(refused=str(e))
    return told(proof, ast.get_docstring(ast.parse(path.read_text())))

def table(peers:Path, only:str|None):
    names = [only] if only else sorted(p.stem for p in (HERE/'adapters').glob('*.py'))
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    kept = {json.loads(x)['name']: x for x in lines}
    commit = provenance()['commit']
    for name in names:
        found = ask(name, peers)
        kept[name] = json.dumps(dict(name=name, commit=commit, **found),
                                ensure_ascii=False)
        print(name, found.get('refused') or found['identity'], flush=True)
        RESULTS.write_text('\n'.join(kept[n] for n in sorted(kept)) + '\n')

def what_was_found(found:dict)->dict[str,str]: # by property: all that is told
    if 'refused' in found:
        return {'lengths' if 'equal lengths' in found['refused']
                else 'refused': found['refused']}
    told = {v['name']: ' '.join(v.values()) for v in found['verdicts']
            if v['outcome'] == 'fails'
            or v['outcome'] == 'differs' and v['name'] != 'dropout'}
    told |= {row[0]: ' '.join(row) for row in found['rows'] if row[3] == 'unusual'}
    if found['unexplained']: told['unexplained'] = ' '.join(found['unexplained'])
    return told

def _asked(name:str)->list: # the property that should tell; the identity is always asked
    asked = getattr(properties, name.replace(' ', '_'), None)
    return [asked] if asked else []

def faults(peers:Path):
    n, rows = 0, [json.loads(x) for x in (HERE/'faults.jsonl').read_text().splitlines()]
    for i, row in enumerate(rows):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(peers, folder, dirs_exist_ok=True)
            path = Path(folder)/row['file']
            text = path.read_text()
            path.write_text(text.replace(row['old'], row['new']))
            told = what_was_found(ask(row['peer'], Path(folder), _asked(row['property'])))
        right = row['property'] in told and row['part'] in told[row['property']]
        n += right
        print('found' if right else 'MISSED', i, row['peer'], repr(row['new']),
              row['property'],
              told.get(row['property']) or told, flush=True)
    print(f'{n} of {len(rows)}')

if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--peers', type=Path, required=True)
    parser.add_argument('--only')
    parser.add_argument('--faults', action='store_true')
    options = parser.parse_args()
    if options.faults: faults(options.peers)
    else: table(options.peers, options.only)
